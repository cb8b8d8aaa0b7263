"""The stages' maps, windows and shifts of timm's Swin, for tests/test_config_swin.c (written with timm 1.0.31).

    python tests/ref/convert_swin_maps.py > tests/ref/golden_swin_maps.h
"""
import timm
from timm.models.swin_transformer import SwinTransformer

# image height, width, patch, window of every stage
CASES = [(224, 224, 4, (7, 7, 7, 7)), (384, 384, 4, (12, 12, 12, 12)), (224, 224, 4, (7, 7, 14, 7)),
         (224, 224, 4, (14, 14, 14, 7)), (256, 256, 4, (8, 8, 8, 8)), (256, 256, 4, (16, 16, 16, 16)),
         (384, 384, 4, (24, 24, 24, 24)), (192, 192, 4, (12, 12, 12, 12)), (32, 32, 2, (4, 4, 4)),
         (200, 312, 4, (7, 7, 7, 7)), (224, 96, 4, (7, 7, 7, 7)), (96, 224, 4, (9, 8, 7, 6)),
         (36, 100, 4, (5, 5, 5)), (60, 28, 4, (16, 4, 3)), (4, 4, 4, (1,)), (4, 64, 4, (7, 7)),
         (52, 52, 4, (1, 2, 3)), (28, 28, 4, (7, 8, 7)), (27, 45, 3, (3, 4, 2)), (16, 16, 8, (2, 2, 2, 2, 2))]


def main():
    print(f"/* Written by tests/ref/convert_swin_maps.py with timm {timm.__version__}. */")
    print("#ifndef TESTS_REF_GOLDEN_SWIN_MAPS_H\n#define TESTS_REF_GOLDEN_SWIN_MAPS_H\n")
    print("static const struct {\n    int image_h, image_w, patch, stages, windows[8];")
    print("    int maps[8][6]; /* a stage: map, window, shift of odd blocks, each height, width */")
    print("} golden_swin_maps[] = {")
    for height, width, patch, windows in CASES:
        model = SwinTransformer(img_size=(height, width), patch_size=patch, window_size=tuple((w, w) for w in windows),
                                embed_dim=4, depths=(2,) * len(windows), num_heads=(1,) * len(windows), num_classes=0)
        stages = []
        for stage in model.layers:
            even, odd = stage.blocks
            assert even.shift_size == (0, 0) and even.window_size == odd.window_size
            stages.append((*stage.output_resolution, *odd.window_size, *odd.shift_size))
        group = ",\n      ".join("{" + ", ".join(map(str, stage)) + "}" for stage in stages)
        print(f"    {{{height}, {width}, {patch}, {len(windows)}, {{{', '.join(map(str, windows))}}},\n     {{{group}}}}},")
    print("};\n\n#endif")


main()
