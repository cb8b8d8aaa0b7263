"""Checks the rows of weights/catalog_timm.c against the installed timm (written with 1.0.31), exit 1 when one differs:
parameters and classes of every checkpoint, its licence, and that timm's hub has it under its own name.

    python tests/ref/catalog_rows.py [results-imagenet.csv]      # of timm's results/, to check top-1 as well
"""
import csv
import os
import re
import sys

import timm
import torch

LICENSES = {"apache-2.0": "APACHE", "mit": "MIT", "cc-by-nc-4.0": "CC_BY_NC"}


def row_of(name, counts):
    """(parameters, classes, licence) as timm has them."""
    cfg = timm.models.get_pretrained_cfg(name)
    if cfg is None or cfg.hf_hub_id not in ("timm/", "timm/" + name) or cfg.hf_hub_filename:
        return None
    key = cfg.architecture, cfg.num_classes
    if key not in counts:
        with torch.device("meta"):
            model = timm.create_model(cfg.architecture, num_classes=cfg.num_classes)
        counts[key] = sum(p.numel() for p in model.parameters())
    return counts[key], cfg.num_classes, LICENSES.get(cfg.license)


def main():
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "weights", "catalog_timm.c")) as file:
        rows = re.findall(r'\{"([a-z0-9_.]+)", ([0-9.]+), (\d+), (\d+), (\w+)\}', file.read())
    top1 = {}
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as file:
            top1 = {line["model"]: float(line["top1"]) for line in csv.DictReader(file)}
    counts, bad = {}, 0
    for name, accuracy, parameters, classes, license_ in rows:
        have, want = (int(parameters), int(classes), license_), row_of(name, counts)
        if have != want or (float(accuracy) and abs(top1.get(name, float(accuracy)) - float(accuracy)) > 5e-4):
            print(name, "is", have, accuracy, "timm has", want, top1.get(name))
            bad += 1
    print(f"{len(rows)} rows, {bad} differ")
    return 1 if bad or not rows else 0


sys.exit(main())
