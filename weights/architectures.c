/*
 * architectures: see architectures.h. The rows of both tables are printed, and checked, by
 * tests/ref/convert_architectures.py; the preprocessing is in architecture_tags.c.
 */
#include "weights/architectures.h"

#include <string.h>

enum { CLS = ARCH_CLASS, DIST = ARCH_DIST, POS = ARCH_POS_PREFIX, PRE = ARCH_PRE_NORM };
enum { NQB = ARCH_NO_QKV_BIAS, LS = ARCH_LAYER_SCALE, FCN = ARCH_FC_NORM, QKN = ARCH_QK_NORM };
enum { GLU = ARCH_SWIGLU, REL = ARCH_RELATIVE };
#define ERF   ACT_GELU
#define TANH  ACT_GELU_TANH
#define QUICK ACT_QUICK_GELU
#define TOKEN POOL_TOKEN
#define AVG   POOL_AVG
#define MAP   POOL_MAP

/* clang-format off */
/* name, image, patch, C, L, H, F, registers, flags, activation, pool, eps */
static const struct architecture architectures[] = {
    {"beit_base_patch16_224", 224, 16, 768, 12, 12, 3072, 0, CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"beit_base_patch16_384", 384, 16, 768, 12, 12, 3072, 0, CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"beit_large_patch16_224", 224, 16, 1024, 24, 16, 4096, 0,
     CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"beit_large_patch16_384", 384, 16, 1024, 24, 16, 4096, 0,
     CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"beit_large_patch16_512", 512, 16, 1024, 24, 16, 4096, 0,
     CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"beitv2_base_patch16_224", 224, 16, 768, 12, 12, 3072, 0,
     CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"beitv2_large_patch16_224", 224, 16, 1024, 24, 16, 4096, 0,
     CLS | LS | FCN | REL, ERF, AVG, 1e-6},
    {"deit3_base_patch16_224", 224, 16, 768, 12, 12, 3072, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_base_patch16_384", 384, 16, 768, 12, 12, 3072, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_huge_patch14_224", 224, 14, 1280, 32, 16, 5120, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_large_patch16_224", 224, 16, 1024, 24, 16, 4096, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_large_patch16_384", 384, 16, 1024, 24, 16, 4096, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_medium_patch16_224", 224, 16, 512, 12, 8, 2048, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_small_patch16_224", 224, 16, 384, 12, 6, 1536, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit3_small_patch16_384", 384, 16, 384, 12, 6, 1536, 0, CLS | LS, ERF, TOKEN, 1e-6},
    {"deit_base_distilled_patch16_224", 224, 16, 768, 12, 12, 3072, 0,
     CLS | DIST | POS, ERF, TOKEN, 1e-6},
    {"deit_base_distilled_patch16_384", 384, 16, 768, 12, 12, 3072, 0,
     CLS | DIST | POS, ERF, TOKEN, 1e-6},
    {"deit_base_patch16_224", 224, 16, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"deit_base_patch16_384", 384, 16, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"deit_small_distilled_patch16_224", 224, 16, 384, 12, 6, 1536, 0,
     CLS | DIST | POS, ERF, TOKEN, 1e-6},
    {"deit_small_patch16_224", 224, 16, 384, 12, 6, 1536, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"deit_tiny_distilled_patch16_224", 224, 16, 192, 12, 3, 768, 0,
     CLS | DIST | POS, ERF, TOKEN, 1e-6},
    {"deit_tiny_patch16_224", 224, 16, 192, 12, 3, 768, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"eva_large_patch14_196", 196, 14, 1024, 24, 16, 4096, 0, CLS | POS | FCN, ERF, AVG, 1e-6},
    {"eva_large_patch14_336", 336, 14, 1024, 24, 16, 4096, 0, CLS | POS | FCN, ERF, AVG, 1e-6},
    {"flexivit_base", 240, 16, 768, 12, 12, 3072, 0, CLS, ERF, TOKEN, 1e-6},
    {"flexivit_large", 240, 16, 1024, 24, 16, 4096, 0, CLS, ERF, TOKEN, 1e-6},
    {"flexivit_small", 240, 16, 384, 12, 6, 1536, 0, CLS, ERF, TOKEN, 1e-6},
    {"swin_base_patch4_window12_384", 384, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swin_base_patch4_window7_224", 224, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swin_large_patch4_window12_384", 384, 4, 192, 24, 6, 768, 0, 0, ERF, AVG, 1e-5},
    {"swin_large_patch4_window7_224", 224, 4, 192, 24, 6, 768, 0, 0, ERF, AVG, 1e-5},
    {"swin_s3_base_224", 224, 4, 96, 36, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swin_s3_small_224", 224, 4, 96, 24, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swin_s3_tiny_224", 224, 4, 96, 12, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swin_small_patch4_window7_224", 224, 4, 96, 24, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swin_tiny_patch4_window7_224", 224, 4, 96, 12, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_base_window12_192", 192, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_base_window12to16_192to256", 256, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_base_window12to24_192to384", 384, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_base_window16_256", 256, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_base_window8_256", 256, 4, 128, 24, 4, 512, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_large_window12_192", 192, 4, 192, 24, 6, 768, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_large_window12to16_192to256", 256, 4, 192, 24, 6, 768, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_large_window12to24_192to384", 384, 4, 192, 24, 6, 768, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_small_window16_256", 256, 4, 96, 24, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_small_window8_256", 256, 4, 96, 24, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_tiny_window16_256", 256, 4, 96, 12, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"swinv2_tiny_window8_256", 256, 4, 96, 12, 3, 384, 0, 0, ERF, AVG, 1e-5},
    {"vit_base_patch14_dinov2", 518, 14, 768, 12, 12, 3072, 0, CLS | POS | LS, ERF, TOKEN, 1e-6},
    {"vit_base_patch14_reg4_dinov2", 518, 14, 768, 12, 12, 3072, 4, CLS | LS, ERF, TOKEN, 1e-6},
    {"vit_base_patch16_224", 224, 16, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_base_patch16_224_miil", 224, 16, 768, 12, 12, 3072, 0, CLS | POS | NQB, ERF, TOKEN, 1e-6},
    {"vit_base_patch16_384", 384, 16, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_base_patch16_clip_224", 224, 16, 768, 12, 12, 3072, 0, CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch16_clip_384", 384, 16, 768, 12, 12, 3072, 0, CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch16_clip_quickgelu_224", 224, 16, 768, 12, 12, 3072, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_base_patch16_gap_224", 224, 16, 768, 12, 16, 3072, 0, 0, ERF, AVG, 1e-6},
    {"vit_base_patch16_plus_240", 240, 16, 896, 12, 14, 3584, 0, CLS | POS | LS, ERF, TOKEN, 1e-6},
    {"vit_base_patch16_plus_clip_240", 240, 16, 896, 12, 14, 3584, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch16_reg4_gap_256", 256, 16, 768, 12, 12, 3072, 4, FCN, ERF, AVG, 1e-6},
    {"vit_base_patch16_siglip_224", 224, 16, 768, 12, 12, 3072, 0, 0, ERF, MAP, 1e-6},
    {"vit_base_patch16_siglip_256", 256, 16, 768, 12, 12, 3072, 0, 0, ERF, MAP, 1e-6},
    {"vit_base_patch16_siglip_384", 384, 16, 768, 12, 12, 3072, 0, 0, ERF, MAP, 1e-6},
    {"vit_base_patch16_siglip_512", 512, 16, 768, 12, 12, 3072, 0, 0, ERF, MAP, 1e-6},
    {"vit_base_patch16_siglip_gap_224", 224, 16, 768, 12, 12, 3072, 0, 0, ERF, AVG, 1e-6},
    {"vit_base_patch16_siglip_gap_256", 256, 16, 768, 12, 12, 3072, 0, 0, ERF, AVG, 1e-6},
    {"vit_base_patch16_siglip_gap_384", 384, 16, 768, 12, 12, 3072, 0, 0, ERF, AVG, 1e-6},
    {"vit_base_patch16_siglip_gap_512", 512, 16, 768, 12, 12, 3072, 0, 0, ERF, AVG, 1e-6},
    {"vit_base_patch32_224", 224, 32, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_base_patch32_384", 384, 32, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_base_patch32_clip_224", 224, 32, 768, 12, 12, 3072, 0, CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch32_clip_256", 256, 32, 768, 12, 12, 3072, 0, CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch32_clip_384", 384, 32, 768, 12, 12, 3072, 0, CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch32_clip_448", 448, 32, 768, 12, 12, 3072, 0, CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_base_patch32_clip_quickgelu_224", 224, 32, 768, 12, 12, 3072, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_base_patch32_plus_256", 256, 32, 896, 12, 14, 3584, 0, CLS | POS | LS, ERF, TOKEN, 1e-6},
    {"vit_base_patch32_siglip_256", 256, 32, 768, 12, 12, 3072, 0, 0, TANH, MAP, 1e-6},
    {"vit_base_patch32_siglip_gap_256", 256, 32, 768, 12, 12, 3072, 0, 0, TANH, AVG, 1e-6},
    {"vit_base_patch8_224", 224, 8, 768, 12, 12, 3072, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_betwixt_patch16_gap_256", 256, 16, 640, 12, 10, 2560, 0, NQB | LS, ERF, AVG, 1e-6},
    {"vit_betwixt_patch16_reg1_gap_256", 256, 16, 640, 12, 10, 2560, 1, LS | FCN, ERF, AVG, 1e-6},
    {"vit_betwixt_patch16_reg4_gap_256", 256, 16, 640, 12, 10, 2560, 4, LS | FCN, ERF, AVG, 1e-6},
    {"vit_betwixt_patch16_reg4_gap_384", 384, 16, 640, 12, 10, 2560, 4, LS | FCN, ERF, AVG, 1e-6},
    {"vit_betwixt_patch32_clip_224", 224, 32, 640, 12, 10, 2560, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_giant_patch14_224", 224, 14, 1408, 40, 16, 6144, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_giant_patch14_clip_224", 224, 14, 1408, 40, 16, 6144, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_giant_patch14_dinov2", 518, 14, 1536, 40, 24, 4096, 0,
     CLS | POS | LS | GLU, ERF, TOKEN, 1e-6},
    {"vit_giant_patch14_reg4_dinov2", 518, 14, 1536, 40, 24, 4096, 4,
     CLS | LS | GLU, ERF, TOKEN, 1e-6},
    {"vit_giant_patch16_gap_224", 224, 16, 1408, 40, 16, 6144, 0, 0, ERF, AVG, 1e-6},
    {"vit_giantopt_patch16_siglip_256", 256, 16, 1536, 40, 16, 6144, 0, 0, TANH, MAP, 1e-6},
    {"vit_giantopt_patch16_siglip_384", 384, 16, 1536, 40, 16, 6144, 0, 0, TANH, MAP, 1e-6},
    {"vit_giantopt_patch16_siglip_gap_256", 256, 16, 1536, 40, 16, 6144, 0, 0, TANH, AVG, 1e-6},
    {"vit_giantopt_patch16_siglip_gap_384", 384, 16, 1536, 40, 16, 6144, 0, 0, TANH, AVG, 1e-6},
    {"vit_gigantic_patch14_224", 224, 14, 1664, 48, 16, 8192, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_gigantic_patch14_clip_224", 224, 14, 1664, 48, 16, 8192, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_gigantic_patch14_clip_378", 378, 14, 1664, 48, 16, 8192, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_gigantic_patch14_clip_quickgelu_224", 224, 14, 1664, 48, 16, 8192, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_huge_patch14_224", 224, 14, 1280, 32, 16, 5120, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_huge_patch14_clip_224", 224, 14, 1280, 32, 16, 5120, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_huge_patch14_clip_336", 336, 14, 1280, 32, 16, 5120, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_huge_patch14_clip_378", 378, 14, 1280, 32, 16, 5120, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_huge_patch14_clip_quickgelu_224", 224, 14, 1280, 32, 16, 5120, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_huge_patch14_clip_quickgelu_378", 378, 14, 1280, 32, 16, 5120, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_huge_patch14_gap_224", 224, 14, 1280, 32, 16, 5120, 0, 0, ERF, AVG, 1e-6},
    {"vit_huge_patch16_gap_448", 448, 16, 1280, 32, 16, 5120, 0, 0, ERF, AVG, 1e-6},
    {"vit_large_patch14_224", 224, 14, 1024, 24, 16, 4096, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_large_patch14_clip_224", 224, 14, 1024, 24, 16, 4096, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_large_patch14_clip_336", 336, 14, 1024, 24, 16, 4096, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_large_patch14_clip_quickgelu_224", 224, 14, 1024, 24, 16, 4096, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_large_patch14_clip_quickgelu_336", 336, 14, 1024, 24, 16, 4096, 0,
     CLS | POS | PRE, QUICK, TOKEN, 1e-5},
    {"vit_large_patch14_dinov2", 518, 14, 1024, 24, 16, 4096, 0, CLS | POS | LS, ERF, TOKEN, 1e-6},
    {"vit_large_patch14_reg4_dinov2", 518, 14, 1024, 24, 16, 4096, 4, CLS | LS, ERF, TOKEN, 1e-6},
    {"vit_large_patch16_224", 224, 16, 1024, 24, 16, 4096, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_large_patch16_384", 384, 16, 1024, 24, 16, 4096, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_large_patch16_siglip_256", 256, 16, 1024, 24, 16, 4096, 0, 0, ERF, MAP, 1e-6},
    {"vit_large_patch16_siglip_384", 384, 16, 1024, 24, 16, 4096, 0, 0, ERF, MAP, 1e-6},
    {"vit_large_patch16_siglip_512", 512, 16, 1024, 24, 16, 4096, 0, 0, TANH, MAP, 1e-6},
    {"vit_large_patch16_siglip_gap_256", 256, 16, 1024, 24, 16, 4096, 0, 0, ERF, AVG, 1e-6},
    {"vit_large_patch16_siglip_gap_384", 384, 16, 1024, 24, 16, 4096, 0, 0, ERF, AVG, 1e-6},
    {"vit_large_patch16_siglip_gap_512", 512, 16, 1024, 24, 16, 4096, 0, 0, TANH, AVG, 1e-6},
    {"vit_large_patch32_224", 224, 32, 1024, 24, 16, 4096, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_large_patch32_384", 384, 32, 1024, 24, 16, 4096, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_little_patch16_reg1_gap_256", 256, 16, 320, 14, 5, 1792, 1, LS | FCN, ERF, AVG, 1e-6},
    {"vit_little_patch16_reg4_gap_256", 256, 16, 320, 14, 5, 1792, 4, LS | FCN, ERF, AVG, 1e-6},
    {"vit_medium_patch16_clip_224", 224, 16, 512, 12, 8, 2048, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_medium_patch16_gap_240", 240, 16, 512, 12, 8, 2048, 0, NQB | LS, ERF, AVG, 1e-6},
    {"vit_medium_patch16_gap_256", 256, 16, 512, 12, 8, 2048, 0, NQB | LS, ERF, AVG, 1e-6},
    {"vit_medium_patch16_gap_384", 384, 16, 512, 12, 8, 2048, 0, NQB | LS, ERF, AVG, 1e-6},
    {"vit_medium_patch16_reg1_gap_256", 256, 16, 512, 12, 8, 2048, 1, LS | FCN, ERF, AVG, 1e-6},
    {"vit_medium_patch16_reg4_gap_256", 256, 16, 512, 12, 8, 2048, 4, LS | FCN, ERF, AVG, 1e-6},
    {"vit_medium_patch32_clip_224", 224, 32, 512, 12, 8, 2048, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
    {"vit_mediumd_patch16_reg4_gap_256", 256, 16, 512, 20, 8, 2048, 4, LS | FCN, ERF, AVG, 1e-6},
    {"vit_mediumd_patch16_reg4_gap_384", 384, 16, 512, 20, 8, 2048, 4, LS | FCN, ERF, AVG, 1e-6},
    {"vit_small_patch14_dinov2", 518, 14, 384, 12, 6, 1536, 0, CLS | POS | LS, ERF, TOKEN, 1e-6},
    {"vit_small_patch14_reg4_dinov2", 518, 14, 384, 12, 6, 1536, 4, CLS | LS, ERF, TOKEN, 1e-6},
    {"vit_small_patch16_224", 224, 16, 384, 12, 6, 1536, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_small_patch16_36x1_224", 224, 16, 384, 36, 6, 1536, 0, CLS | POS | LS, ERF, TOKEN, 1e-6},
    {"vit_small_patch16_384", 384, 16, 384, 12, 6, 1536, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_small_patch32_224", 224, 32, 384, 12, 6, 1536, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_small_patch32_384", 384, 32, 384, 12, 6, 1536, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_small_patch8_224", 224, 8, 384, 12, 6, 1536, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_so150m2_patch16_reg1_gap_256", 256, 16, 832, 21, 13, 2176, 1,
     POS | NQB | LS | FCN, ERF, AVG, 1e-6},
    {"vit_so150m2_patch16_reg1_gap_384", 384, 16, 832, 21, 13, 2176, 1,
     POS | NQB | LS | FCN, ERF, AVG, 1e-6},
    {"vit_so150m2_patch16_reg1_gap_448", 448, 16, 832, 21, 13, 2176, 1,
     POS | NQB | LS | FCN, ERF, AVG, 1e-6},
    {"vit_so150m_patch16_reg4_gap_256", 256, 16, 896, 18, 14, 2304, 4, POS, ERF, AVG, 1e-6},
    {"vit_so150m_patch16_reg4_gap_384", 384, 16, 896, 18, 14, 2304, 4, POS, ERF, AVG, 1e-6},
    {"vit_so150m_patch16_reg4_map_256", 256, 16, 896, 18, 14, 2304, 4, POS, ERF, MAP, 1e-6},
    {"vit_so400m_patch14_siglip_224", 224, 14, 1152, 27, 16, 4304, 0, 0, ERF, MAP, 1e-6},
    {"vit_so400m_patch14_siglip_378", 378, 14, 1152, 27, 16, 4304, 0, 0, ERF, MAP, 1e-6},
    {"vit_so400m_patch14_siglip_gap_224", 224, 14, 1152, 27, 16, 4304, 0, 0, ERF, AVG, 1e-6},
    {"vit_so400m_patch14_siglip_gap_378", 378, 14, 1152, 27, 16, 4304, 0, 0, ERF, AVG, 1e-6},
    {"vit_so400m_patch14_siglip_gap_448", 448, 14, 1152, 27, 16, 4304, 0, 0, ERF, AVG, 1e-6},
    {"vit_so400m_patch14_siglip_gap_896", 896, 14, 1152, 27, 16, 4304, 0, 0, ERF, AVG, 1e-6},
    {"vit_so400m_patch16_siglip_256", 256, 16, 1152, 27, 16, 4304, 0, 0, TANH, MAP, 1e-6},
    {"vit_so400m_patch16_siglip_384", 384, 16, 1152, 27, 16, 4304, 0, 0, TANH, MAP, 1e-6},
    {"vit_so400m_patch16_siglip_512", 512, 16, 1152, 27, 16, 4304, 0, 0, TANH, MAP, 1e-6},
    {"vit_so400m_patch16_siglip_gap_256", 256, 16, 1152, 27, 16, 4304, 0, 0, TANH, AVG, 1e-6},
    {"vit_so400m_patch16_siglip_gap_384", 384, 16, 1152, 27, 16, 4304, 0, 0, TANH, AVG, 1e-6},
    {"vit_so400m_patch16_siglip_gap_512", 512, 16, 1152, 27, 16, 4304, 0, 0, TANH, AVG, 1e-6},
    {"vit_tiny_patch16_224", 224, 16, 192, 12, 3, 768, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_tiny_patch16_384", 384, 16, 192, 12, 3, 768, 0, CLS | POS, ERF, TOKEN, 1e-6},
    {"vit_wee_patch16_reg1_gap_256", 256, 16, 256, 14, 4, 1280, 1, LS | FCN, ERF, AVG, 1e-6},
    {"vit_xsmall_patch16_clip_224", 224, 16, 256, 10, 4, 1024, 0,
     CLS | POS | PRE, ERF, TOKEN, 1e-5},
};

/* name, version, stages, depths, windows, pretrained windows */
static const struct swin_stages swins[] = {
    {"swin_base_patch4_window12_384", 1, 4, {2, 2, 18, 2}, {12, 12, 12, 12}, {0}},
    {"swin_base_patch4_window7_224", 1, 4, {2, 2, 18, 2}, {7, 7, 7, 7}, {0}},
    {"swin_large_patch4_window12_384", 1, 4, {2, 2, 18, 2}, {12, 12, 12, 12}, {0}},
    {"swin_large_patch4_window7_224", 1, 4, {2, 2, 18, 2}, {7, 7, 7, 7}, {0}},
    {"swin_s3_base_224", 1, 4, {2, 2, 30, 2}, {7, 7, 14, 7}, {0}},
    {"swin_s3_small_224", 1, 4, {2, 2, 18, 2}, {14, 14, 14, 7}, {0}},
    {"swin_s3_tiny_224", 1, 4, {2, 2, 6, 2}, {7, 7, 14, 7}, {0}},
    {"swin_small_patch4_window7_224", 1, 4, {2, 2, 18, 2}, {7, 7, 7, 7}, {0}},
    {"swin_tiny_patch4_window7_224", 1, 4, {2, 2, 6, 2}, {7, 7, 7, 7}, {0}},
    {"swinv2_base_window12_192", 2, 4, {2, 2, 18, 2}, {12, 12, 12, 12}, {0}},
    {"swinv2_base_window12to16_192to256", 2, 4, {2, 2, 18, 2}, {16, 16, 16, 16}, {12, 12, 12, 6}},
    {"swinv2_base_window12to24_192to384", 2, 4, {2, 2, 18, 2}, {24, 24, 24, 24}, {12, 12, 12, 6}},
    {"swinv2_base_window16_256", 2, 4, {2, 2, 18, 2}, {16, 16, 16, 16}, {0}},
    {"swinv2_base_window8_256", 2, 4, {2, 2, 18, 2}, {8, 8, 8, 8}, {0}},
    {"swinv2_large_window12_192", 2, 4, {2, 2, 18, 2}, {12, 12, 12, 12}, {0}},
    {"swinv2_large_window12to16_192to256", 2, 4, {2, 2, 18, 2}, {16, 16, 16, 16}, {12, 12, 12, 6}},
    {"swinv2_large_window12to24_192to384", 2, 4, {2, 2, 18, 2}, {24, 24, 24, 24}, {12, 12, 12, 6}},
    {"swinv2_small_window16_256", 2, 4, {2, 2, 18, 2}, {16, 16, 16, 16}, {0}},
    {"swinv2_small_window8_256", 2, 4, {2, 2, 18, 2}, {8, 8, 8, 8}, {0}},
    {"swinv2_tiny_window16_256", 2, 4, {2, 2, 6, 2}, {16, 16, 16, 16}, {0}},
    {"swinv2_tiny_window8_256", 2, 4, {2, 2, 6, 2}, {8, 8, 8, 8}, {0}},
};
/* clang-format on */

const struct architecture *architecture_at(size_t index) {
    return index < COUNT_OF(architectures) ? &architectures[index] : NULL;
}

const struct architecture *architecture_find(const char *name) {
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < COUNT_OF(architectures); i++) {
        const char *known = architectures[i].name;
        if (strncmp(known, name, length) == 0 && !known[length]) return &architectures[i];
    }
    return NULL;
}

const struct swin_stages *architecture_stages(const struct architecture *arch) {
    for (size_t i = 0; i < COUNT_OF(swins); i++) {
        if (strcmp(swins[i].name, arch->name) == 0) return &swins[i];
    }
    return NULL;
}

bool architecture_swin(const struct architecture *arch, struct swin_config *out) {
    const struct swin_stages *stages = architecture_stages(arch);
    if (!stages) return false;
    *out = (struct swin_config){.version = stages->version,
                                .image_h = arch->image,
                                .image_w = arch->image,
                                .patch_h = arch->patch,
                                .patch_w = arch->patch,
                                .dim = arch->dim,
                                .stages = stages->stages,
                                .qkv_bias = true,
                                .activation = arch->activation,
                                .window_rule = WINDOW_TIMM,
                                .mask_value = -100,
                                .norm_eps = arch->norm_eps};
    for (int s = 0; s < stages->stages; s++) {
        out->depths[s] = stages->depths[s];
        out->heads[s] = arch->heads << s;
        out->hidden[s] = arch->hidden << s;
        out->window[s] = stages->window[s];
        out->pretrained_window[s] = stages->pretrained_window[s];
    }
    return true;
}
