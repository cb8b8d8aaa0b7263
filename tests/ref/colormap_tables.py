#!/usr/bin/env python3
"""
The colour maps of tools/colormap.c, from matplotlib (tested with 3.11):
    colormap_tables.py tables   the tables of the C file
    colormap_tables.py golden   tests/ref/golden_colormaps.h: colours at other places than k/255
"""
import sys

import matplotlib
import numpy as np

NAMES = ["viridis", "magma", "inferno", "plasma", "cividis", "turbo"]


def entry(rgba):
    r, g, b = (int(round(float(c) * 255)) for c in rgba[:3])
    return f"0x{r:02X}{g:02X}{b:02X}"


def tables():
    for name in NAMES:
        colors = [entry(matplotlib.colormaps[name](i)) for i in range(256)]
        print(f"static const uint32_t {name}[256] = {{")
        for i in range(0, 256, 9):
            print("    " + ", ".join(colors[i : i + 9]) + ("," if i + 9 < 256 else "};"))
        print()


def golden():
    print("/* Made by colormap_tables.py: name, place in 0..1, red, green, blue in 0..255. */")
    for name in NAMES + ["gray"]:
        for x in np.linspace(0, 1, 23):
            r, g, b = (float(c) * 255 for c in matplotlib.colormaps[name](float(x))[:3])
            print(f'{{"{name}", {x:.9f}, {{{r:.4f}, {g:.4f}, {b:.4f}}}}},')


{"tables": tables, "golden": golden}[sys.argv[1]]()
