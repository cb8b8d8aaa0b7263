#!/usr/bin/env python3
"""Write the small PyTorch files of tests/test_torch.c.

usage: torch_golden.py [FOLDER]      (default: the folder of this script)

Every tensor's elements count up from 0 in row-major order (i for integers, i / 4 for floats), whatever its type,
strides or storage, so that the test needs no list of values. Needs torch and numpy.
"""
import argparse
import os
import pathlib
import sys
from collections import OrderedDict

import numpy as np
import torch
from torch import nn


def count(shape, dtype=torch.float32):
    n = int(np.prod(shape))
    values = torch.arange(n, dtype=torch.float64).reshape(shape)
    return (values / 4 if dtype.is_floating_point else values).to(dtype)


def types():
    return OrderedDict((str(t).split(".")[1], count((2, 3), t)) for t in (
        torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8))


def views():
    whole = count((4, 6))
    shared = torch.cat([torch.full((5,), -1.0), count((12,))])  # behind an offset
    return {
        "whole": whole,
        "transposed": count((6, 4)).t().contiguous().t(),  # (6, 4), strides 1, 6
        "permuted": count((2, 3, 4)).permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "offset": shared[5:17].reshape(3, 4),
        "offset2": shared[5:11],
        "tied": whole,
        "scalar": count(()),
        "empty": torch.zeros(0, 3),
        "ones": count((1, 5, 1)),
        "stepped": torch.repeat_interleave(count((5,)), 2)[::2],
        "truth": torch.tensor([False, True]),
    }


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.blocks = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2, bias=False)])
        self.register_buffer("steps", count((3,), torch.int64))
        self.register_parameter("nothing", None)
        for p in self.parameters():
            p.data = count(p.shape)


def training():
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for p in model.parameters():
        p.data = count(p.shape)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    return {
        "model": OrderedDict(("module." + k, v) for k, v in model.state_dict().items()),
        "model_ema": model.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(),
        "epoch": 299, "best": np.float64(81.5), "args": argparse.Namespace(lr=0.1, path=pathlib.PurePosixPath("a/b")),
        "device": torch.device("cpu"), "size": torch.Size([2, 3]), "rng": np.arange(3), "seen": {1, 2}, "note": "ü",
        "big": 2 ** 80, "negative": -5, "bytes": b"\x00\xff", "none": None, "flag": True, "dtype": torch.float32,
        "metrics": {"loss": [0.5, 0.25], "top1": (81.5,)},
    }


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    files = {
        "types": types(), "views": views(), "training": training(), "module": Small(),
        "parameters": {k: nn.Parameter(count((2, 3))) for k in ("a.weight", "b.weight")},
        "twins": {"gan_a": {"w": count((2,))}, "gan_b": {"w": count((3,))}},
        "teacher": {"student": {"w": count((2,))}, "teacher": {"backbone.w": count((3,))}, "epoch": 1},
    }
    for name, value in files.items():
        path = os.path.join(folder, f"torch_{name}")
        torch.save(value, path + ".pth")
        if name != "module":  # the old form carries the classes' source text along
            torch.save(value, path + "_legacy.pth", _use_new_zipfile_serialization=False)
    for protocol in (3, 4, 5):
        torch.save(views(), os.path.join(folder, f"torch_views_p{protocol}.pth"), pickle_protocol=protocol)
    torch.save(views(), os.path.join(folder, "torch_views_p4_legacy.pth"), pickle_protocol=4,
               _use_new_zipfile_serialization=False)
    torch.save({"rare": count((2, 3), torch.int32).to(torch.uint16)}, os.path.join(folder, "torch_uint16.pth"))


if __name__ == "__main__":
    main()
