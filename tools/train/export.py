#!/usr/bin/env python3
"""Turn what train.py wrote into a vitrine model file (HDF5; the layout is weights/README.md's).

usage: export.py DIR/NAME MODEL.h5     (reads NAME.safetensors, NAME.json and NAME.first8.npz)
"""
import argparse
import hashlib
import json
import os

import h5py
import numpy as np
from safetensors.numpy import load_file


def attributes(group, values):
    """Words as UTF-8 of variable length, bools and integers as int32, numbers as float64."""
    for name, value in values.items():
        if not isinstance(value, str):
            value = np.asarray(value)
            value = value.astype(np.float64 if value.dtype.kind == "f" else np.int32)
        group.attrs[name] = value


def retimed(result):
    """Says so when --steps was chosen anew on the way: the run is then no function of --steps."""
    plans = result.get("plans", [])
    return "".join("; --steps %d up to step %d" % (was, at) for (_, was), (at, _) in zip(plans, plans[1:]))


def root_attributes(result, weights_file):
    with open(weights_file, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    return dict(
        format="vitrine-model", format_version=1, name=result["name"], family=result["family"],
        architecture=DESCRIPTION[result["family"]](result["config"]) + " (timm %s)" % result["class"],
        source="trained on %s by tools/train/train.py" % result["dataset"], source_sha256=digest, license="MIT",
        recipe="tools/train/train.py %s --steps %d --seed %d --precision %s (%.1f epochs%s)" % (
            result["family"], result["steps"], result["seed"], result["precision"],
            result["epochs"], retimed(result)),
        test_accuracy="%.4f on %d %s test images (%s)" % (
            result["test_accuracy"], result["test_images"], result["dataset"], result["form"]))


def vit_config(result, tensors):
    c = result["config"]
    grid = c["img_size"] // c["patch_size"]
    prefix = int(c["class_token"])
    assert tensors["pos_embed"].shape == (1, prefix + grid * grid, c["embed_dim"])
    return dict(
        image_size=[c["img_size"]] * 2, patch_size=[c["patch_size"]] * 2,
        embed_dim=c["embed_dim"], depth=c["depth"], num_heads=c["num_heads"],
        mlp_hidden=int(c["embed_dim"] * c["mlp_ratio"]), num_classes=c["num_classes"],
        class_token=c["class_token"], dist_token=False, register_tokens=0,
        position_embedding="learned", position_grid=[grid, grid], position_prefix=prefix,
        position_resample="bicubic_antialias", patch_bias=True, pre_norm=False,
        qkv_bias=c["qkv_bias"], layer_scale=False, qk_norm="none", mlp="mlp", activation="gelu",
        pool=c["global_pool"], norm=True, fc_norm=False, norm_eps=result["norm_eps"])


def swin_config(result, tensors):
    c = result["config"]
    stages = range(len(c["depths"]))
    for s in stages:                             # maps no longer than the window shrink it
        window = min(c["window_size"], -(-c["img_size"] // c["patch_size"] // 2 ** s))
        for b in range(c["depths"][s]):
            table = tensors[f"layers.{s}.blocks.{b}.attn.relative_position_bias_table"]
            assert table.shape == ((2 * window - 1) ** 2, c["num_heads"][s])
    return dict(
        version=1, image_size=[c["img_size"]] * 2, patch_size=[c["patch_size"]] * 2,
        embed_dim=c["embed_dim"], depths=c["depths"], num_heads=c["num_heads"],
        mlp_hidden=[int(c["embed_dim"] * 2 ** s * c["mlp_ratio"]) for s in stages],
        window=[c["window_size"] for _ in stages], pretrained_window=[0 for _ in stages],
        num_classes=c["num_classes"], qkv_bias=c["qkv_bias"], activation="gelu",
        window_rule="timm", mask_value=-100.0, norm_eps=result["norm_eps"])


def vit_description(c):
    return "ViT, %d wide, %d blocks, %d heads, patches of %d, images of %d" % (
        c["embed_dim"], c["depth"], c["num_heads"], c["patch_size"], c["img_size"])


def swin_description(c):
    return "Swin, %d wide, %s blocks, %s heads, windows of %d, patches of %d, images of %d" % (
        c["embed_dim"], "+".join(map(str, c["depths"])), "+".join(map(str, c["num_heads"])),
        c["window_size"], c["patch_size"], c["img_size"])


CONFIG = {"vit": vit_config, "swin": swin_config}
DESCRIPTION = {"vit": vit_description, "swin": swin_description}


def preprocess(result):
    side = result["config"]["img_size"]
    return dict(input_size=[side, side], crop_pct=1.0, crop_mode="center", interpolation="bicubic",
                crop_rounding="half_even", mean=result["mean"], std=result["std"])


def export(base, path):
    with open(base + ".json") as f:
        result = json.load(f)
    if result["family"] not in CONFIG:
        raise SystemExit(f"{base}.json: family {result['family']} is not one of {list(CONFIG)}")
    tensors = load_file(base + ".safetensors")
    first = np.load(base + ".first8.npz")
    with h5py.File(path + ".tmp", "w", libver="earliest") as h5:
        attributes(h5, root_attributes(result, base + ".safetensors"))
        attributes(h5.create_group("config"), CONFIG[result["family"]](result, tensors))
        attributes(h5.create_group("preprocess"), preprocess(result))
        for name in ("id", "name"):              # these data sets have no ids beside names
            h5.create_dataset("labels/" + name, data=result["classes"], dtype=h5py.string_dtype())
        test = h5.create_group("selftest")
        test.create_dataset("image", data=first["images"][0])
        test.create_dataset("expected", data=first["logits"][0].astype(np.float32))
        attributes(test, dict(tolerance=1e-4, origin="torch %s, timm %s, float32" % (
            result["versions"]["torch"], result["versions"]["timm"])))
        parameters = h5.create_group("parameters")
        for name in sorted(tensors):
            parameters.create_dataset(name, data=tensors[name].astype(np.float16))
    os.replace(path + ".tmp", path)
    print(f"{path}: {len(tensors)} tensors, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("base", metavar="DIR/NAME")
    ap.add_argument("model", metavar="MODEL.h5")
    args = ap.parse_args()
    export(args.base, args.model)
