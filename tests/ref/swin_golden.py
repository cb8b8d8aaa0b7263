#!/usr/bin/env python3
"""Writes tests/ref/swin_*.h5: tiny seeded timm Swin models as vitrine model files, and timm's results.

    python tests/ref/swin_golden.py [NAME...]   (timm, torch, h5py, numpy)

Each file is a model file (weights/README.md) and a group /golden, read by tests/test_swin.c:
  images (2, h, w, 3) uint8 · block.N (2, T, C) for every block, counted over the stages ·
  tokens (2, T, C) after the final norm · pooled (2, C), logits (2, K) where the model has a head.
The reference runs in float64 (so what a test measures is our own rounding), and is checked here to
agree with timm's own float32. Every parameter is perturbed, so that each one matters: no zero bias,
no unit norm, attention not uniform, position bias as large as the scores.
swin_tables.h5 holds bias tables resampled by timm and position biases of timm's Swin v2
(tests/test_swin_tables.c).
"""
import functools
import os
import sys

import h5py
import numpy as np
import timm
import torch
from timm.layers import LayerNorm
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table
from timm.models.swin_transformer import SwinTransformer
from timm.models.swin_transformer_v2 import SwinTransformerV2, WindowAttention

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ORIGIN = f"torch {torch.__version__.split('+')[0]}, timm {timm.__version__}"

# A model is these, changed by its row. Keys below the line are ours, the others timm's.
DEFAULT = dict(img_size=(48, 48), patch_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4),
               window_size=4, mlp_ratio=2.0, num_classes=10, qkv_bias=True,
               # ---
               version=1, pretrained=None, eps=1e-5, run_size=None, extreme=False)

# The maps of the stages are behind each row, where they are not 12x12 and 6x6.
MODELS = {
    "v1": dict(window_size=3),
    "v1_padded": dict(img_size=(40, 40)),                                     # 10x10, 5x5
    "v1_no_bias": dict(img_size=(40, 40), qkv_bias=False),                    # 10x10, 5x5
    "v1_rectangle": dict(img_size=(24, 48), patch_size=(4, 6), window_size=2, eps=1e-3),  # 6x8, 3x4
    "v1_narrow": dict(img_size=(12, 48)),                                     # 3x12, 2x6
    "v1_small": dict(img_size=(12, 8)),                                       # 3x2, 2x1
    "v1_odd": dict(img_size=(28, 36), embed_dim=10, depths=(1, 3, 2), num_heads=(2, 4, 5),
                   mlp_ratio=1.5),                                            # 7x9, 4x5, 2x3
    "v1_windows": dict(window_size=(5, 2), num_classes=0),
    "v1_shrunk": dict(run_size=(20, 28)),                                     # 5x7, 3x4
    "v1_grown": dict(img_size=(12, 16), run_size=(32, 44)),                   # 3x4, 2x2; 8x11, 4x6
    "v1_extreme": dict(img_size=(32, 40), extreme=True),                      # 8x10, 4x5
    "v2": dict(version=2, window_size=3),
    "v2_padded": dict(version=2, img_size=(40, 40)),                          # 10x10, 5x5
    "v2_no_bias": dict(version=2, img_size=(40, 40), qkv_bias=False),         # 10x10, 5x5
    "v2_odd": dict(version=2, img_size=(28, 36), embed_dim=8, depths=(1, 2, 2), num_heads=(2, 4, 4),
                   mlp_ratio=1.5),                                            # 7x9, 4x5, 2x3
    "v2_pretrained": dict(version=2, pretrained=(3, 2), eps=1e-3),
    "v2_resized": dict(version=2, run_size=(20, 28)),                         # 5x7, 3x4
    "v2_small": dict(version=2, img_size=(12, 4), pretrained=(0, 6)),         # 3x1, 2x1
    "v2_extreme": dict(version=2, img_size=(32, 40), extreme=True),           # 8x10, 4x5
}


def draw_parameter(name, p, rng, extreme):
    """A value for parameter `name`, float64."""
    draw = rng.standard_normal(tuple(p.shape))
    if name.endswith("relative_position_bias_table"):
        return np.clip(4e3 * draw, -1e4, 1e4) if extreme else 1.5 * draw
    if name.endswith("logit_scale"):
        return 4.605 + 2 * np.abs(draw) if extreme else 1.0 + 0.7 * draw
    if "cpb_mlp.0" in name:
        return 0.8 * draw
    if "cpb_mlp.2" in name:
        return (100.0 if extreme else 3.0) * draw / np.sqrt(512)
    if "norm" in name and name.endswith("weight"):
        return 1.0 + 0.4 * draw
    if p.ndim > 1:
        return 1.6 * draw / np.sqrt(p[0].numel())
    return 0.3 * draw


def build(model, seed):
    """timm's module, in float64, every parameter drawn from the seed."""
    ours = ("version", "pretrained", "eps", "run_size", "extreme")
    args = {k: v for k, v in model.items() if k not in ours}
    args["norm_layer"] = functools.partial(LayerNorm, eps=model["eps"])
    if model["version"] == 2:
        args["pretrained_window_sizes"] = model["pretrained"] or (0,) * len(model["depths"])
    if isinstance(args["window_size"], tuple):  # one a stage; timm takes two numbers for one window
        args["window_size"] = [(w, w) for w in args["window_size"]]
    net = (SwinTransformer if model["version"] == 1 else SwinTransformerV2)(**args)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in net.named_parameters():
            value = draw_parameter(name, p, rng, model["extreme"])
            p.copy_(torch.from_numpy(value.astype(np.float32)))
    return net.double().eval(), args["window_size"]


def forward(net, images):
    """Everything the tests compare, float64 numpy."""
    seen, hooks, blocks = {}, [], [b for stage in net.layers for b in stage.blocks]
    for n, block in enumerate(blocks):
        hooks.append(block.register_forward_hook(
            lambda m, i, o, n=n: seen.update({f"block.{n}": o.flatten(1, 2)})))
    dtype = next(net.parameters()).dtype
    mean, std = torch.tensor(MEAN, dtype=dtype), torch.tensor(STD, dtype=dtype)
    x = ((torch.from_numpy(images).to(dtype) / 255 - mean) / std).permute(0, 3, 1, 2)
    with torch.no_grad():
        final = net.forward_features(x)
        seen["tokens"] = final.flatten(1, 2)
        seen["pooled"] = net.forward_head(final, pre_logits=True)
        if net.num_classes:
            seen["logits"] = net.forward_head(final)
    for hook in hooks:
        hook.remove()
    return {k: v.numpy().astype(np.float64) for k, v in seen.items()}


def config(model, net):
    """/config of weights/README.md."""
    pair = lambda v: list(v) if isinstance(v, tuple) else [v, v]
    stages = len(model["depths"])
    windows = model["window_size"]
    return dict(
        version=model["version"], image_size=list(model["img_size"]),
        patch_size=pair(model["patch_size"]), embed_dim=model["embed_dim"],
        depths=list(model["depths"]), num_heads=list(model["num_heads"]),
        mlp_hidden=[stage.blocks[0].mlp.fc1.out_features for stage in net.layers],
        window=list(windows) if isinstance(windows, tuple) else [windows] * stages,
        pretrained_window=list(model["pretrained"] or [0] * stages),
        num_classes=model["num_classes"], qkv_bias=int(model["qkv_bias"]), activation="gelu",
        window_rule="timm", mask_value=-100.0, norm_eps=model["eps"])


def set_attributes(group, values):
    for key, value in values.items():
        if isinstance(value, str):
            group.attrs.create(key, value, dtype=h5py.string_dtype("utf-8"))
        else:
            real = np.asarray(value).dtype.kind == "f"
            group.attrs.create(key, value, dtype="f8" if real else "i4")


def check_not_trivial(name, out):
    """A golden value that hardly varies tests nothing."""
    for key in ("pooled", "logits"):
        if key in out:
            differ = np.abs(out[key][0] - out[key][1]).max()
            assert out[key].std() > 0.2 and differ > 0.1, f"{name}: flat {key}"


def write_model(name, seed):
    model = {**DEFAULT, **MODELS[name]}
    net, windows = build(model, seed)
    parameters = {k: v.numpy().astype(np.float32) for k, v in net.state_dict().items()}
    height, width = model["run_size"] or model["img_size"]
    if model["run_size"]:
        net.set_input_size(img_size=model["run_size"], window_size=windows)
    rng = np.random.default_rng(seed + 1000)
    images = rng.integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    images[1, : height // 2] //= 4  # the two images are of different brightness
    out = forward(net, images)
    single = forward(net.float(), images)
    off = {key: np.abs(value - single[key]).max() / np.abs(value).max() for key, value in out.items()}
    worst = max(off, key=off.get)
    assert off[worst] < (3e-3 if model["extreme"] else 1e-5), f"{name}: float32 {worst} {off[worst]}"
    check_not_trivial(name, out)

    path = os.path.join(HERE, f"swin_{name}.h5")
    with h5py.File(path, "w") as f:
        set_attributes(f, dict(format="vitrine-model", format_version=1, name=f"swin-{name}",
                               family="swin", architecture=f"test_swin_{name}",
                               source=f"random, seed {seed}", source_sha256="", license="MIT"))
        set_attributes(f.create_group("config"), config(model, net))
        set_attributes(f.create_group("preprocess"), dict(
            input_size=list(model["img_size"]), crop_pct=1.0, crop_mode="center",
            interpolation="bicubic", crop_rounding="half_even", mean=list(MEAN), std=list(STD)))
        group = f.create_group("parameters")
        for key, value in parameters.items():
            group.create_dataset(key, data=value)
        golden = f.create_group("golden")
        set_attributes(golden, dict(origin=ORIGIN))
        golden.create_dataset("images", data=images)
        for key, value in out.items():
            golden.create_dataset(key, data=value.astype(np.float32))
    size = os.path.getsize(path)
    assert size <= 300_000, f"{path} has {size} bytes"
    print(f"{os.path.basename(path)}: {size // 1000} kB, {len(parameters)} tensors, largest logit "
          f"{np.abs(out.get('logits', out['tokens'])).max():.2f}, timm's float32 off by {off[worst]:.1e} "
          f"in {worst}")


# ---- tables --------------------------------------------------------------------------------------

HEADS = 3
RESAMPLED = [((7, 7), (12, 12)), ((12, 12), (7, 7)), ((7, 7), (7, 5)), ((4, 4), (3, 6)),
             ((3, 4), (8, 2)), ((1, 1), (3, 3)), ((5, 5), (1, 1)), ((1, 4), (2, 4)), ((7, 7), (8, 8)),
             ((12, 12), (24, 24))]
POSITION_BIASES = [((8, 8), 0), ((16, 16), 12), ((8, 8), 6), ((3, 5), 0), ((1, 1), 0), ((1, 2), 1)]


def write_tables():
    """timm's resampled tables; the bias that timm's Swin v2 adds, from its own attention module."""
    path = os.path.join(HERE, "swin_tables.h5")
    with h5py.File(path, "w") as f:
        for i, (old, new) in enumerate(RESAMPLED):
            rows = lambda window: (2 * window[0] - 1) * (2 * window[1] - 1)
            source = np.random.default_rng(i).standard_normal((rows(old), HEADS)).astype(np.float32)
            value = resize_rel_pos_bias_table(torch.from_numpy(source), new, (rows(new), HEADS), old)
            group = f.create_group(f"{old[0]}x{old[1]}_{new[0]}x{new[1]}")
            group.create_dataset("source", data=source)
            group.create_dataset("resampled", data=value.numpy())
        for i, (window, pretrained) in enumerate(POSITION_BIASES):
            rng = np.random.default_rng(100 + i)
            attn = WindowAttention(8 * HEADS, window, HEADS, pretrained_window_size=(pretrained,) * 2)
            with torch.no_grad():
                for name, p in attn.named_parameters():
                    p.copy_(torch.from_numpy(draw_parameter(name, p, rng, False).astype(np.float32)))
                attn = attn.double()
                attn._init_buffers()
                table = attn.cpb_mlp(attn.relative_coords_table).view(-1, HEADS)
                bias = (16 * torch.sigmoid(table)).T.contiguous().numpy()
            group = f.create_group(f"{window[0]}x{window[1]}_{pretrained}")
            for name in ("cpb_mlp.0.weight", "cpb_mlp.0.bias", "cpb_mlp.2.weight"):
                group.create_dataset(name, data=attn.get_parameter(name).detach().float().numpy())
            group.create_dataset("coordinates", data=attn.relative_coords_table[0].float().numpy())
            group.create_dataset("bias", data=bias.astype(np.float32))
    size = os.path.getsize(path)
    assert size <= 300_000, f"{path} has {size} bytes"
    print(f"{os.path.basename(path)}: {size // 1000} kB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for seed, name in enumerate(MODELS):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            write_model(name, seed)
    if len(sys.argv) == 1 or "tables" in sys.argv[1:]:
        write_tables()
