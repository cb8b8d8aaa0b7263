#!/usr/bin/env python3
"""Tiny ViTs and a Swin as .safetensors, and the same weights as NumPy, JAX-named .npz and ONNX files, for test_npz.c and
test_onnx.c: whatever container they came in, the model written must be the same byte for byte.

usage: make_containers.py [DIR]      (tests/ref/containers)

ONNX files are torch.onnx's own: the older exporter with and without constant folding, the newer one with its weights in
a file beside it, its records of source lines stripped. Needs torch, timm, onnx, onnxscript, safetensors, numpy; seeded.
"""
import os
import sys
import warnings

import numpy as np
import onnx
import torch
from safetensors.torch import save_file
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer

OLD = dict(dynamo=False, opset_version=17)


def perturb(model, seed):
    """No two parameters alike: exporters share equal ones."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.5 * torch.randn(p.shape, generator=generator))
    return model.eval()


def jax_names(state, heads):
    """A timm ViT as google-research/vision_transformer saves it (vit_jax/checkpoint.py, models_vit.py)."""
    width = state["cls_token"].shape[-1]
    d = width // heads
    out = {"cls": state["cls_token"],
           "Transformer/posembed_input/pos_embedding": state["pos_embed"],
           "embedding/kernel": state["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
           "embedding/bias": state["patch_embed.proj.bias"],
           "Transformer/encoder_norm/scale": state["norm.weight"],
           "Transformer/encoder_norm/bias": state["norm.bias"]}
    if "head.weight" in state:
        out |= {"head/kernel": state["head.weight"].T, "head/bias": state["head.bias"]}
    n = 0
    while f"blocks.{n}.norm1.weight" in state:
        block, from_ = f"Transformer/encoderblock_{n}/", f"blocks.{n}."
        for norm, name in (("LayerNorm_0", "norm1"), ("LayerNorm_2", "norm2")):
            out[f"{block}{norm}/scale"] = state[f"{from_}{name}.weight"]
            out[f"{block}{norm}/bias"] = state[f"{from_}{name}.bias"]
        attention = block + "MultiHeadDotProductAttention_1/"
        for i, part in enumerate(("query", "key", "value")):
            rows = slice(i * width, (i + 1) * width)
            out[f"{attention}{part}/kernel"] = state[f"{from_}attn.qkv.weight"][rows].T.reshape(width, heads, d)
            out[f"{attention}{part}/bias"] = state[f"{from_}attn.qkv.bias"][rows].reshape(heads, d)
        out[f"{attention}out/kernel"] = state[f"{from_}attn.proj.weight"].T.reshape(heads, d, width)
        out[f"{attention}out/bias"] = state[f"{from_}attn.proj.bias"]
        for i in (0, 1):
            out[f"{block}MlpBlock_3/Dense_{i}/kernel"] = state[f"{from_}mlp.fc{i + 1}.weight"].T
            out[f"{block}MlpBlock_3/Dense_{i}/bias"] = state[f"{from_}mlp.fc{i + 1}.bias"]
        n += 1
    return out


def strip(path):
    """Leaves the scopes and drops source lines, types and shapes: they hold paths and most of the bytes."""
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.doc_string = ""
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    del model.metadata_props[:]
    del model.functions[:]
    onnx.save(model, path)


class Dinov2Like(torch.nn.Module):
    """Positions cut and resampled for the picture's size, as transformers' Dinov2Embeddings traces."""

    def __init__(self, width):
        super().__init__()
        self.embeddings = torch.nn.Module()
        embeddings = self.embeddings
        embeddings.cls_token = torch.nn.Parameter(torch.zeros(1, 1, width))
        embeddings.position_embeddings = torch.nn.Parameter(torch.zeros(1, 5, width))

        def forward(x):
            n = torch.tensor(x.shape[2] // 2)
            table = embeddings.position_embeddings
            side = ((table.shape[1] - 1) ** 0.5).to(torch.int64)  # a number of the trace, so that nothing is folded
            grid = table[:, 1:].reshape(1, side, side, width).permute(0, 3, 1, 2)
            grid = torch.nn.functional.interpolate(grid, size=(x.shape[2] // 2, x.shape[3] // 2), mode="bicubic")
            positions = torch.cat((table[:, :1], grid.permute(0, 2, 3, 1).view(1, -1, width)), dim=1)
            tokens = x.flatten(2).transpose(1, 2)[:, : n * n]
            return torch.cat((embeddings.cls_token.expand(x.shape[0], -1, -1), tokens), dim=1) + positions

        embeddings.forward = forward

    def forward(self, x):
        return self.embeddings(x)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "containers")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)

    vit = perturb(VisionTransformer(img_size=8, patch_size=4, embed_dim=8, depth=2, num_heads=2, mlp_ratio=2,
                                    num_classes=3), 1)
    x = torch.randn(1, 3, 8, 8)
    save_file(vit.state_dict(), "vit.safetensors")
    jax = jax_names({k: v.numpy() for k, v in vit.state_dict().items()}, 2)
    np.savez("jax.npz", **{k: np.ascontiguousarray(v) for k, v in jax.items()})
    np.savez_compressed("jax_deflated.npz", **{"opt/target/" + k: np.asfortranarray(v) for k, v in jax.items()},
                        **{"opt/state/step": np.int32(7)})
    torch.onnx.export(vit, (x,), "vit_folded.onnx", **OLD)
    torch.onnx.export(vit, (x,), "vit_unfolded.onnx", do_constant_folding=False, **OLD)
    torch.onnx.export(vit, (x,), "vit_dynamo.onnx", dynamo=True, external_data=True, verbose=False)

    swin = perturb(SwinTransformer(img_size=16, patch_size=2, window_size=4, embed_dim=4, depths=(1, 1), num_heads=(1, 2),
                                   mlp_ratio=2, num_classes=3), 2)
    x = torch.randn(1, 3, 16, 16)
    save_file(swin.state_dict(), "swin.safetensors")
    torch.onnx.export(swin, (x,), "swin_folded.onnx", **OLD)
    torch.onnx.export(swin, (x,), "swin_dynamo.onnx", dynamo=True, external_data=False, verbose=False)

    positions = Dinov2Like(4)
    perturb(positions, 3)
    torch.onnx.export(positions, (torch.randn(1, 4, 6, 6),), "positions.onnx", opset_version=14, dynamo=False,
                      input_names=["x"], dynamic_axes={"x": {2: "h", 3: "w"}})
    save_file(positions.state_dict(), "positions.safetensors")
    for name in os.listdir():
        os.chmod(name, 0o644)
        if name.endswith(".onnx"):
            strip(name)


if __name__ == "__main__":
    main()
