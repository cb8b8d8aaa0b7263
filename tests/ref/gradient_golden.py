#!/usr/bin/env python3
"""Writes tests/ref/gradient.h5: relevances of a class in the models of vit_*.h5 and swin_*.h5, by torch's autograd.

    python tests/ref/gradient_golden.py   (timm, torch, torchvision, transformers, h5py, numpy)

Read by tests/test_gradient.c: /vit_token/layer.0 ... (H, T, T), /swin_v1/layer.0 ... (W, H, N, N): max(0, P * dlogit/dP)
of the softmax's output P, of class CLASS of the second image, in float64; the attention pool's behind the last block.
"""
import contextlib
import os

import h5py
import numpy as np
import torch

import swin_golden
import vit_golden

HERE = os.path.dirname(os.path.abspath(__file__))
CLASS, IMAGE = 3, 1


@contextlib.contextmanager
def kept_softmax():
    """Every softmax's output, with its gradient after backward()."""
    seen, original = [], torch.Tensor.softmax

    def softmax(self, *args, **kwargs):
        out = original(self, *args, **kwargs)
        out.retain_grad()
        seen.append(out)
        return out

    torch.Tensor.softmax = softmax
    try:
        yield seen
    finally:
        torch.Tensor.softmax = original


def relevances(net, image, mean, std, target):
    for module in net.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    x = ((torch.from_numpy(image).double() / 255 - torch.tensor(mean)) / torch.tensor(std)).permute(2, 0, 1)[None]
    with kept_softmax() as seen:
        net(x)[0, target].backward()
    return [(p * p.grad).clamp(min=0).detach().numpy() for p in seen]


def write(file, name, net, image, mean, std):
    found = relevances(net, image, mean, std, CLASS)
    for n, values in enumerate(found):
        values = values[0] if name.startswith("vit") else values  # (1, H, T, T), or windows of one image
        assert values.max() > 1e-4, f"{name}: layer {n} has no relevance"
        file.create_dataset(f"{name}/layer.{n}", data=values.astype(np.float32), compression="gzip", compression_opts=9,
                            shuffle=True)
    print(f"{name}: {len(found)} layers, greatest {[round(float(v.max()), 4) for v in found]}")


def images_of(path):
    with h5py.File(path) as f:
        return f["golden/images"][IMAGE]


def main():
    torch.set_num_threads(1)
    with h5py.File(os.path.join(HERE, "gradient.h5"), "w") as f:
        for seed, name in enumerate(vit_golden.MODELS):
            model = vit_golden.describe(name)
            if not model["num_classes"]:
                continue
            net = vit_golden.build(model, seed)
            if "kind" in model and model["run_size"]:
                net.set_input_size(model["run_size"])
            image = images_of(os.path.join(HERE, f"vit_{name}.h5"))
            write(f, f"vit_{name}", net, image, vit_golden.MEAN, vit_golden.STD)
        for seed, name in enumerate(swin_golden.MODELS):
            model = {**swin_golden.DEFAULT, **swin_golden.MODELS[name]}
            if not model["num_classes"]:
                continue
            net, windows = swin_golden.build(model, seed)
            if model["run_size"]:
                net.set_input_size(img_size=model["run_size"], window_size=windows)
            image = images_of(os.path.join(HERE, f"swin_{name}.h5"))
            write(f, f"swin_{name}", net, image, swin_golden.MEAN, swin_golden.STD)
    print(os.path.getsize(os.path.join(HERE, "gradient.h5")) // 1000, "kB")


if __name__ == "__main__":
    main()
