#!/usr/bin/env python3
"""Compare `vitrine attention` with rollouts computed from timm's own probabilities, from the JPEG file on.

usage: rollout_parity.py --vitrine build/vitrine --photos DIR [--count N] [--work DIR] [CASE ...]

Random-weight models, perturbed so that attention is far from uniform (parity.py). The reference takes each block's
probabilities from its attention's softmax (timm's fused attention off), makes of them a dense (tokens, tokens) matrix in
double (windows by pixel arithmetic of its own, not by rolling), and multiplies matrices. Raw maps are compared with
the same probabilities. The gradient method's map of class CLASS is compared with torch's autograd, relative to its
greatest value. Needs what parity.py needs. Exit status 0 when all is within BOUND, RAW_BOUND and GRADIENT_BOUND.
"""
import argparse
import os
import sys

import numpy as np
import timm
import torch
from PIL import Image

from gradient_golden import kept_softmax
from parity import perturb, photos_of, run

BOUND = 1e-5      # of a rollout, absolute
GRADIENT_BOUND = 1e-4
CLASS = 7
RAW_BOUND = 1e-4  # of probabilities up to 1, the last layer's among them: what logits are held to
CASES = {  # name: (architecture, image size (h, w) or None)
    "vit_base_patch16_224": ("vit_base_patch16_224", None),
    "deit_tiny_distilled_patch16_224": ("deit_tiny_distilled_patch16_224", None),
    "vit_small_patch14_reg4_dinov2": ("vit_small_patch14_reg4_dinov2", (224, 224)),
    "vit_small_patch16_224@384x224": ("vit_small_patch16_224", (384, 224)),
    "swin_tiny_patch4_window7_224": ("swin_tiny_patch4_window7_224", None),
    "swin_base_patch4_window12_384": ("swin_base_patch4_window12_384", None),
    "swinv2_tiny_window8_256": ("swinv2_tiny_window8_256", None),
}
RULES = [  # (options, residual, discard, fusion, first layer, query)
    ([], 0.5, 0.0, "mean", 0, "head"),
    (["--heads", "max", "--discard", "0.9"], 0.5, 0.9, "max", 0, "head"),
    (["--heads", "min", "--residual", "0.2", "--start-layer", "3"], 0.2, 0.0, "min", 3, "head"),
    (["--query", "mean", "--discard", "0.35"], 0.5, 0.35, "mean", 0, "mean"),
]


def probabilities(model, pixels):
    """[(heads, ...)] of each block: (heads, T, T), or of windows (windows, heads, N, N)."""
    seen, hooks = [], []
    swin = hasattr(model, "layers")
    blocks = [b for stage in model.layers for b in stage.blocks] if swin else list(model.blocks)
    for block in blocks:
        block.attn.fused_attn = False
        drop = block.attn.attn_drop  # sees what the softmax gave
        hooks.append(drop.register_forward_hook(lambda _, args, __: seen.append(args[0].numpy().astype(np.float64))))
    with torch.no_grad():
        model(pixels)
    for hook in hooks:
        hook.remove()
    return blocks, [p if swin else p[0] for p in seen]


def relevances(model, pixels):
    """max(0, P * d logit / d P) of each block, as probabilities() has them."""
    swin = hasattr(model, "layers")
    model.zero_grad()
    with kept_softmax() as seen:
        model(pixels)[0, CLASS].backward()
    return [(p.detach().double() * p.grad.double()).clamp(min=0).numpy()[slice(None) if swin else 0] for p in seen]


def fuse(p, how):
    return getattr(p, how)(axis=-3)


def slots(block):
    """(H*W,) window and slot of each token of a Swin block's map, by arithmetic on coordinates."""
    h, w = block.input_resolution
    (mh, mw), (sh, sw) = block.window_size, block.shift_size
    y, x = np.meshgrid((np.arange(h) - sh) % h, (np.arange(w) - sw) % w, indexing="ij")
    across = -(-w // mw)
    return ((y // mh) * across + x // mw).ravel(), ((y % mh) * mw + x % mw).ravel()


def matrix(p, block, residual, discard, fusion, keep_first):
    """M (T, T) of a block, stochastic; residual None: I + A as it is."""
    a = fuse(p, fusion)  # (T, T) or (windows, N, N); no map here is padded
    if discard:
        gone = a.argsort(-1, kind="stable").argsort(-1, kind="stable") < int(discard * a.shape[-1])
        if keep_first:
            gone[:, 0] = False
        a[gone] = 0
    if a.ndim == 3:
        window, slot = slots(block)
        whole = np.zeros((len(slot), len(slot)))
        for w in range(len(a)):
            tokens = np.flatnonzero(window == w)
            whole[np.ix_(tokens, tokens)] = a[w][np.ix_(slot[tokens], slot[tokens])]
        a = whole
    if residual is None:
        return a + np.eye(len(a))
    a *= 1 - residual
    a[np.diag_indices(len(a))] += residual
    return a / a.sum(1, keepdims=True)


def merging(h, w):
    """(h/2*w/2, h*w)"""
    m = np.zeros((h // 2 * (w // 2), h * w))
    for y in range(h):
        for x in range(w):
            m[y // 2 * (w // 2) + x // 2, y * w + x] = 0.25
    return m


def reference(model, blocks, probs, residual, discard, fusion, start, query):
    swin = hasattr(model, "layers")
    product = carried = None  # of all M from the last on, and of the mergings alone
    keep_first = not swin and model.cls_token is not None
    for number in reversed(range(len(blocks))):
        block, p = blocks[number], probs[number]
        if product is None:
            product = np.eye(block.input_resolution[0] * block.input_resolution[1] if swin else p.shape[-1])
            carried = product
        if number >= start:
            product = product @ matrix(p, block, residual, discard, fusion, keep_first)
        if swin and number and block.input_resolution != blocks[number - 1].input_resolution:
            down = merging(*blocks[number - 1].input_resolution)
            product, carried = product @ down, carried @ down
    if residual is None:
        product = product - carried
    if swin:
        row = product.mean(0)
        return (row / row.sum()).reshape(blocks[0].input_resolution)
    prefix = model.num_prefix_tokens
    if query == "mean":
        row = product[prefix:].mean(0)
    else:
        row = product[: 2 if getattr(model, "dist_token", None) is not None else 1].mean(0)
    row = row[prefix:]
    return (row / row.sum()).reshape(model.patch_embed.grid_size)


def raw_difference(args, converted, photos, all_probs, swin):
    """Of raw maps of all queries in two layers (a shifted one) against the probabilities."""
    layers = [0, 1] if swin else [0, len(all_probs[0][1]) - 1]
    run(args.vitrine, "attention", "-q", "-m", converted, "--exif", "ignore", "--method", "raw", "--query", "all",
        "--save", "npy", "--layers", ",".join(map(str, layers)), "-o", args.work, "-b", "1", photos[0])
    blocks, probs = all_probs[0]
    worst = 0.0
    for layer in layers:
        path = os.path.join(args.work, os.path.splitext(os.path.basename(photos[0]))[0] + f".raw.layer{layer}.npy")
        got, want = np.load(path, mmap_mode="r"), probs[layer]
        for head in range(got.shape[0]):
            if swin:
                window, slot = slots(blocks[layer])
                w = np.where(window[:, None] == window[None, :], want[window[:, None], head, slot[:, None], slot[None, :]], 0)
            else:
                w = want[head]
            worst = max(worst, np.abs(got[head] - w).max())
        os.unlink(path)
    return worst


def gradient_difference(args, converted, photos, transform, model, taken):
    run(args.vitrine, "attention", "-q", "-m", converted, "--exif", "ignore", "-o", args.work, "--save", "npy",
        "--method", "gradient", "--class", str(CLASS), *photos)
    worst = 0.0
    for path, (blocks, _) in zip(photos, taken):
        name = os.path.join(args.work, os.path.splitext(os.path.basename(path))[0] + ".gradient.npy")
        found = relevances(model, transform(Image.open(path).convert("RGB"))[None])
        got, want = np.load(name), reference(model, blocks, found, None, 0.0, "mean", 0, "head")
        worst = max(worst, np.abs(got - want).max() / want.max())
        os.unlink(name)
    return worst


def check(args, case, number):
    from safetensors.torch import save_file
    arch, size = CASES[case]
    model = timm.create_model(arch, num_classes=10 if "dinov2" in arch else 1000, **({"img_size": size} if size else {})).eval()
    perturb(model, 400 + number)
    weights, converted = (os.path.join(args.work, "rollout" + s) for s in (".safetensors", ".h5"))
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, weights)
    stored = ["--preprocess", f"input_size={size[0]}x{size[1]}"] if size else []
    run(args.vitrine, "convert", "-q", weights, "--arch", arch, "-o", converted, *stored)
    config = timm.data.resolve_data_config({}, model=model)
    config["input_size"] = (3, *(size or config["input_size"][1:]))
    transform = timm.data.create_transform(**config)
    photos = photos_of(args.photos)[: args.count]
    swin = hasattr(model, "layers")
    taken = [probabilities(model, transform(Image.open(p).convert("RGB"))[None]) for p in photos]
    spread = np.mean([p.max(-1).mean() * p.shape[-1] for p in taken[0][1]])
    worst, greatest = [], 0.0
    for options, *rule in RULES:
        run(args.vitrine, "attention", "-q", "-m", converted, "--exif", "ignore", "-o", args.work, "--save", "npy", *options,
            *photos)
        off = 0.0
        for path, (blocks, probs) in zip(photos, taken):
            name = os.path.join(args.work, os.path.splitext(os.path.basename(path))[0] + ".rollout.npy")
            got, want = np.load(name), reference(model, blocks, probs, *rule)
            assert got.shape == want.shape, (got.shape, want.shape)
            assert abs(got.sum() - 1) < 1e-5
            off = max(off, np.abs(got - want).max())
            greatest = max(greatest, want.max() * want.size)
            os.unlink(name)
        worst.append(off)
    gradient = gradient_difference(args, converted, photos, transform, model, taken)
    raw = raw_difference(args, converted, photos, taken, swin)
    print(f"| {case} | {'x'.join(map(str, want.shape))} | {greatest:.1f} | {spread:.1f} | "
          + " | ".join(f"{w:.1e}" for w in worst) + f" | {gradient:.1e} | {raw:.1e} |", flush=True)
    os.unlink(weights), os.unlink(converted)
    return max(worst) <= BOUND and raw <= RAW_BOUND and gradient <= GRADIENT_BOUND


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("case", nargs="*")
    ap.add_argument("--vitrine", default="build/vitrine")
    ap.add_argument("--photos", required=True)
    ap.add_argument("--count", type=int, default=3)
    ap.add_argument("--work", default="build/parity")
    args = ap.parse_intermixed_args()
    os.makedirs(args.work, exist_ok=True)
    print("| model | map | greatest x patches | greatest of a row x keys | " + " | ".join(" ".join(r[0]) or "plain" for r in RULES)
          + " | gradient | raw, all queries |")
    results = [check(args, case, list(CASES).index(case)) for case in args.case or CASES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
