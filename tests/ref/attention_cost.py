#!/usr/bin/env python3
"""What the maps and overlays of `vitrine attention` cost beside classifying, and beside the usual PyTorch way.

usage: attention_cost.py --vitrine build/vitrine --model vit_base.h5 --photos DIR [--weights FILE.safetensors]
                         [--arch vit_base_patch16_224] [--count 100] [--threads 2] [--batch 8] [--rounds 5] [--work DIR]

Whole commands on the same photos, one after the other, round by round, each with --threads threads:
  classify        vitrine classify
  npy             vitrine attention --save npy
  overlay         vitrine attention --save overlay
  torch classify  timm's model from --weights (those of --model), fp32, behind timm's own transform, fused attention
  torch overlay   the same with fused attention off and a forward hook a layer that keeps (B, H, T, T); for each image
                  a rollout by products of matrices (heads' mean, identity added, rows normalised), matplotlib's
                  viridis over the picture after Pillow's bicubic resize, a PNG by Pillow
Printed of each: the median seconds on the clock and of CPU time (user + system), both beside classify's, and the
greatest peak of resident memory. Of torch also the seconds of imports and loading, which are in the others.
Without --weights only vitrine is run. Needs torch, timm, safetensors, pillow, numpy, matplotlib; a machine with nothing
else to do. Run it once before: the files should be in the page cache.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

CASES = ["classify", "npy", "overlay", "torch classify", "torch overlay"]


# ---- the PyTorch way, in a process of its own --------------------------------------------------------------------------

def rollout(layers, size):
    """Of one image: [(H, T, T)] -> (h, w), 1 at its greatest."""
    import torch
    result = torch.eye(layers[0].shape[-1])
    for probabilities in layers:
        fused = (probabilities.mean(dim=0) + torch.eye(result.shape[0])) / 2
        result = (fused / fused.sum(dim=-1, keepdim=True)) @ result
    mask = result[0, 1:].reshape(size)
    return (mask / mask.max()).numpy()


def save_overlay(image, mask, path):
    import numpy as np
    from matplotlib import colormaps
    from PIL import Image
    mask = np.array(Image.fromarray(mask.astype(np.float32)).resize(image.size, Image.BICUBIC))
    mask = (mask - mask.min()) / (mask.max() - mask.min())
    heat = colormaps["viridis"](mask)[..., :3] * 255
    Image.fromarray((0.4 * np.asarray(image) + 0.6 * heat).astype(np.uint8)).save(path)


def torch_way(args, paths):
    begun = time.perf_counter()
    import timm
    import torch
    from PIL import Image
    overlays, kept = args.child == "torch overlay", []
    torch.set_num_threads(args.threads)
    model = timm.create_model(args.arch, checkpoint_path=args.weights).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    for block in model.blocks if overlays else []:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda _, __, output: kept.append(output))
    print(time.perf_counter() - begun)
    for first in range(0, len(paths), args.batch):
        some = paths[first:first + args.batch]
        images = [Image.open(path).convert("RGB") for path in some]
        kept.clear()
        with torch.no_grad():
            model(torch.stack([transform(image) for image in images])).softmax(-1).topk(5)
            for i, image in enumerate(images if overlays else []):
                mask = rollout([layer[i] for layer in kept], model.patch_embed.grid_size)
                name = os.path.splitext(os.path.basename(some[i]))[0]
                save_overlay(image, mask, os.path.join(args.work, "torch", name + ".png"))


# ---- measuring ---------------------------------------------------------------------------------------------------------

def command(case, args, photos):
    if case.startswith("torch"):
        return [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--child", case]
    verb = ["classify"] if case == "classify" else ["attention", "--save", case, "-o", os.path.join(args.work, case)]
    return [args.vitrine, *verb, "-m", args.model, "-q", "-t", str(args.threads), "-b", str(args.batch), "@" + photos]


def measure(case, args, photos):
    """(seconds, seconds of CPU, peak in MiB, seconds of start or 0)"""
    begun = time.perf_counter()
    child = subprocess.Popen(command(case, args, photos), stdout=subprocess.PIPE, text=True)
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{case}: exit status {child.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, \
        float(said) if case.startswith("torch") else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--vitrine", "--model", "--photos"):
        parser.add_argument(name, required=True)
    parser.add_argument("--weights")
    parser.add_argument("--arch", default="vit_base_patch16_224")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", default="build/attention_cost")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    paths = sorted(os.path.join(args.photos, name) for name in os.listdir(args.photos)
                   if name.lower().endswith((".jpg", ".jpeg", ".png")))[:args.count]
    if args.child:
        return torch_way(args, paths)
    os.makedirs(os.path.join(args.work, "torch"), exist_ok=True)
    photos = os.path.join(args.work, "photos.txt")
    with open(photos, "w") as file:
        file.writelines(path + "\n" for path in paths)
    cases = CASES if args.weights else CASES[:3]
    rows = {case: [] for case in cases}
    for _ in range(args.rounds):
        for case in cases:
            rows[case].append(measure(case, args, photos))
    print(f"{len(paths)} photos, {args.threads} threads, batch {args.batch}, medians of {args.rounds} rounds")
    print("case             seconds  ratio   CPU s  ratio  peak MiB    more  start s")
    base = [statistics.median(column) for column in zip(*rows["classify"])]
    for case in cases:
        seconds, cpu, _, start = (statistics.median(column) for column in zip(*rows[case]))
        peak, least = max(row[2] for row in rows[case]), max(row[2] for row in rows["classify"])
        print(f"{case:15} {seconds:8.2f} {seconds / base[0]:6.2f} {cpu:7.2f} {cpu / base[1]:6.2f} "
              f"{peak:9.0f} {peak - least:+7.0f} {start:8.2f}")


if __name__ == "__main__":
    main()
