#!/usr/bin/env python3
"""Writes tests/ref/golden_windows.h: fingerprints of timm's own Swin index buffers and masks.

    python tests/ref/windows_golden.py   (timm, torch, numpy)

relative_position_index: FNV-1a over the buffer as int32, for every window M x M up to 24 and some
rectangular ones. attn_mask: FNV-1a over (mask != 0) as bytes, for a window and shift over every map
up to 20 x 20, the maps in row-major order (shift 0 along an axis whose map is no longer than the
window, timm's rule, is left to the caller: here the mask of exactly this window and shift).
"""
import os

import numpy as np
import timm
from timm.models.swin_transformer import SwinTransformerBlock, get_relative_position_index

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOWS = [(m, m) for m in range(1, 25)] + [(7, 5), (5, 7), (1, 8), (12, 3)]
SHIFTED = [(2, 2, 1, 1), (3, 3, 1, 1), (4, 4, 2, 2), (4, 4, 3, 1), (5, 5, 2, 2), (7, 7, 3, 3),
           (8, 8, 4, 4), (7, 5, 3, 2), (6, 4, 0, 2), (4, 7, 2, 0)]


def fnv1a(data, state=0xcbf29ce484222325):
    for byte in data:
        state = ((state ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return state


def mask_bytes(block, height, width):
    block.input_resolution = (height, width)
    mask = block.get_attn_mask()
    return (mask != 0).numpy().astype(np.uint8).tobytes()


def main():
    lines = ["/* Written by tests/ref/windows_golden.py with timm %s. */" % timm.__version__,
             "#ifndef TESTS_REF_GOLDEN_WINDOWS_H", "#define TESTS_REF_GOLDEN_WINDOWS_H", "",
             "#include <stdint.h>", "",
             "static const struct {", "    int window_h, window_w;", "    uint64_t hash;",
             "} golden_bias_index[] = {"]
    for h, w in WINDOWS:
        index = get_relative_position_index(h, w).numpy().astype("<i4")
        lines.append("    {%d, %d, 0x%016xu}," % (h, w, fnv1a(index.tobytes())))
    lines += ["};", "", "static const struct {",
              "    int window_h, window_w, shift_h, shift_w, most; /* maps up to most x most */",
              "    uint64_t hash;", "} golden_masks[] = {"]
    for h, w, sh, sw in SHIFTED:
        block = SwinTransformerBlock(8, (20, 20), num_heads=1)
        block.window_size, block.shift_size, block.window_area = (h, w), (sh, sw), h * w
        state, most = 0xcbf29ce484222325, 20 if h * w < 30 else 12
        for height in range(1, most + 1):
            for width in range(1, most + 1):
                state = fnv1a(mask_bytes(block, height, width), state)
        lines.append("    {%d, %d, %d, %d, %d, 0x%016xu}," % (h, w, sh, sw, most, state))
    lines += ["};", "", "#endif", ""]
    with open(os.path.join(HERE, "golden_windows.h"), "w") as f:
        f.write("\n".join(lines))


if __name__ == "__main__":
    main()
