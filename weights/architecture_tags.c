/*
 * architecture_tags: how the pictures of every pretrained tag of timm are prepared; see
 * architectures.h. The rows are printed, and checked, by tests/ref/convert_architectures.py.
 */
#include <stdio.h>
#include <string.h>

#include "weights/architectures.h"

enum { CENTER, SQUASH, BORDER };
enum { BICUBIC, BILINEAR };
enum { INET, HALF, CLIP, UNIT }; /* mean and std: ImageNet's, one half, OpenAI CLIP's, none */

/* clang-format off */
struct tag_row {
    const char *name, *tags; /* tags of equal preprocessing, a blank between; "" = no weights */
    double crop_pct;
    int crop_mode, interpolation, stats;
};

/* The first row of a name begins with timm's default tag. */
static const struct tag_row tags[] = {
    {"beit_base_patch16_224", "in22k_ft_in22k_in1k in22k_ft_in22k", 0.9, CENTER, BICUBIC, HALF},
    {"beit_base_patch16_384", "in22k_ft_in22k_in1k", 1, CENTER, BICUBIC, HALF},
    {"beit_large_patch16_224",
     "in22k_ft_in22k_in1k in22k_ft_in22k",
     0.9, CENTER, BICUBIC, HALF},
    {"beit_large_patch16_384", "in22k_ft_in22k_in1k", 1, CENTER, BICUBIC, HALF},
    {"beit_large_patch16_512", "in22k_ft_in22k_in1k", 1, CENTER, BICUBIC, HALF},
    {"beitv2_base_patch16_224",
     "in1k_ft_in22k_in1k in1k_ft_in1k in1k_ft_in22k",
     0.9, CENTER, BICUBIC, INET},
    {"beitv2_large_patch16_224",
     "in1k_ft_in22k_in1k in1k_ft_in1k",
     0.95, CENTER, BICUBIC, INET},
    {"beitv2_large_patch16_224", "in1k_ft_in22k", 0.9, CENTER, BICUBIC, INET},
    {"deit3_base_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit3_base_patch16_224", "fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_base_patch16_384", "fb_in1k fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_huge_patch14_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit3_huge_patch14_224", "fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_large_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit3_large_patch16_224", "fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_large_patch16_384", "fb_in1k fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_medium_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit3_medium_patch16_224", "fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_small_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit3_small_patch16_224", "fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit3_small_patch16_384", "fb_in1k fb_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"deit_base_distilled_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit_base_distilled_patch16_384", "fb_in1k", 1, CENTER, BICUBIC, INET},
    {"deit_base_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit_base_patch16_384", "fb_in1k", 1, CENTER, BICUBIC, INET},
    {"deit_small_distilled_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit_small_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit_tiny_distilled_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"deit_tiny_patch16_224", "fb_in1k", 0.9, CENTER, BICUBIC, INET},
    {"eva_large_patch14_196", "in22k_ft_in22k_in1k in22k_ft_in1k", 1, CENTER, BICUBIC, CLIP},
    {"eva_large_patch14_336", "in22k_ft_in22k_in1k in22k_ft_in1k", 1, SQUASH, BICUBIC, CLIP},
    {"flexivit_base",
     "1200ep_in1k 1000ep_in21k 300ep_in1k 300ep_in21k 600ep_in1k patch16_in21k patch30_in21k",
     0.95, CENTER, BICUBIC, HALF},
    {"flexivit_large", "1200ep_in1k 300ep_in1k 600ep_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"flexivit_small", "1200ep_in1k 300ep_in1k 600ep_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"swin_base_patch4_window12_384",
     "ms_in22k_ft_in1k ms_in1k ms_in22k",
     1, CENTER, BICUBIC, INET},
    {"swin_base_patch4_window7_224",
     "ms_in22k_ft_in1k ms_in1k ms_in22k",
     0.9, CENTER, BICUBIC, INET},
    {"swin_large_patch4_window12_384", "ms_in22k_ft_in1k ms_in22k", 1, CENTER, BICUBIC, INET},
    {"swin_large_patch4_window7_224", "ms_in22k_ft_in1k ms_in22k", 0.9, CENTER, BICUBIC, INET},
    {"swin_s3_base_224", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swin_s3_small_224", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swin_s3_tiny_224", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swin_small_patch4_window7_224",
     "ms_in22k_ft_in1k ms_in1k ms_in22k",
     0.9, CENTER, BICUBIC, INET},
    {"swin_tiny_patch4_window7_224",
     "ms_in1k ms_in22k ms_in22k_ft_in1k",
     0.9, CENTER, BICUBIC, INET},
    {"swinv2_base_window12_192", "ms_in22k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_base_window12to16_192to256", "ms_in22k_ft_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_base_window12to24_192to384", "ms_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"swinv2_base_window16_256", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_base_window8_256", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_large_window12_192", "ms_in22k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_large_window12to16_192to256", "ms_in22k_ft_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_large_window12to24_192to384", "ms_in22k_ft_in1k", 1, CENTER, BICUBIC, INET},
    {"swinv2_small_window16_256", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_small_window8_256", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_tiny_window16_256", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"swinv2_tiny_window8_256", "ms_in1k", 0.9, CENTER, BICUBIC, INET},
    {"vit_base_patch14_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_base_patch14_reg4_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_base_patch16_224",
     "augreg2_in21k_ft_in1k augreg_in1k augreg_in21k augreg_in21k_ft_in1k orig_in21k "
     "orig_in21k_ft_in1k sam_in1k",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_224", "bamboo", 1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_224", "dino mae", 0.9, CENTER, BICUBIC, INET},
    {"vit_base_patch16_224_miil", "in21k in21k_ft_in1k", 0.875, CENTER, BILINEAR, UNIT},
    {"vit_base_patch16_384",
     "augreg_in21k_ft_in1k augreg_in1k orig_in21k_ft_in1k",
     1, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_clip_224",
     "laion2b_ft_in12k_in1k openai_ft_in12k_in1k",
     0.95, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_clip_224",
     "datacompxl dfn2b laion2b laion2b_ft_in1k laion400m_e32 metaclip_2pt5b metaclip_400m",
     1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_clip_224",
     "laion2b_ft_in12k openai openai_ft_in12k openai_ft_in1k",
     0.9, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_clip_384",
     "laion2b_ft_in12k_in1k laion2b_ft_in1k openai_ft_in1k",
     1, SQUASH, BICUBIC, CLIP},
    {"vit_base_patch16_clip_384", "openai_ft_in12k_in1k", 0.95, SQUASH, BICUBIC, CLIP},
    {"vit_base_patch16_clip_quickgelu_224",
     "metaclip_2pt5b metaclip_400m",
     1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_clip_quickgelu_224", "openai", 0.9, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_gap_224", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_plus_240", "", 0.95, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_plus_clip_240", "laion400m_e32", 1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch16_reg4_gap_256", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_224", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_256", "v2_webli webli webli_i18n", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_384", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_512", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_gap_224", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_gap_256",
     "v2_webli webli webli_i18n",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_gap_384", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch16_siglip_gap_512", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch32_224",
     "augreg_in21k_ft_in1k augreg_in1k augreg_in21k orig_in21k sam_in1k",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch32_384", "augreg_in21k_ft_in1k augreg_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_base_patch32_clip_224",
     "laion2b_ft_in12k_in1k laion2b laion2b_ft_in1k laion400m_e32 openai openai_ft_in1k",
     0.9, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_clip_224",
     "datacompxl metaclip_2pt5b metaclip_400m",
     1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_clip_256", "datacompxl", 1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_clip_384", "laion2b_ft_in12k_in1k", 1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_clip_384", "openai_ft_in12k_in1k", 0.95, SQUASH, BICUBIC, CLIP},
    {"vit_base_patch32_clip_448", "laion2b_ft_in12k_in1k", 1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_clip_quickgelu_224", "laion400m_e32 openai", 0.9, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_clip_quickgelu_224",
     "metaclip_2pt5b metaclip_400m",
     1, CENTER, BICUBIC, CLIP},
    {"vit_base_patch32_plus_256", "", 0.95, CENTER, BICUBIC, HALF},
    {"vit_base_patch32_siglip_256", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch32_siglip_gap_256", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch8_224",
     "augreg2_in21k_ft_in1k augreg_in21k augreg_in21k_ft_in1k",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_base_patch8_224", "dino", 0.9, CENTER, BICUBIC, INET},
    {"vit_betwixt_patch16_gap_256", "", 0.95, CENTER, BICUBIC, HALF},
    {"vit_betwixt_patch16_reg1_gap_256", "sbb_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"vit_betwixt_patch16_reg4_gap_256",
     "sbb2_e200_in12k_ft_in1k sbb2_e200_in12k sbb_in12k sbb_in12k_ft_in1k sbb_in1k",
     0.95, CENTER, BICUBIC, HALF},
    {"vit_betwixt_patch16_reg4_gap_384", "sbb2_e200_in12k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_betwixt_patch32_clip_224", "tinyclip_laion400m", 0.9, CENTER, BICUBIC, CLIP},
    {"vit_giant_patch14_224", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_giant_patch14_clip_224", "laion2b", 1, CENTER, BICUBIC, CLIP},
    {"vit_giant_patch14_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_giant_patch14_reg4_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_giant_patch16_gap_224", "in22k_ijepa", 0.9, CENTER, BICUBIC, INET},
    {"vit_giantopt_patch16_siglip_256", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_giantopt_patch16_siglip_384", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_giantopt_patch16_siglip_gap_256", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_giantopt_patch16_siglip_gap_384", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_gigantic_patch14_224", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_gigantic_patch14_clip_224",
     "laion2b metaclip2_worldwide metaclip_2pt5b",
     1, CENTER, BICUBIC, CLIP},
    {"vit_gigantic_patch14_clip_378", "metaclip2_worldwide", 1, SQUASH, BICUBIC, CLIP},
    {"vit_gigantic_patch14_clip_quickgelu_224", "metaclip_2pt5b", 1, CENTER, BICUBIC, CLIP},
    {"vit_huge_patch14_224", "orig_in21k", 0.9, CENTER, BICUBIC, HALF},
    {"vit_huge_patch14_224", "mae", 0.9, CENTER, BICUBIC, INET},
    {"vit_huge_patch14_clip_224",
     "laion2b_ft_in12k_in1k dfn5b laion2b laion2b_ft_in12k laion2b_ft_in1k "
     "metaclip2_worldwide metaclip_2pt5b metaclip_altogether",
     1, CENTER, BICUBIC, CLIP},
    {"vit_huge_patch14_clip_336", "laion2b_ft_in12k_in1k", 1, SQUASH, BICUBIC, CLIP},
    {"vit_huge_patch14_clip_378", "dfn5b", 1, CENTER, BICUBIC, CLIP},
    {"vit_huge_patch14_clip_378", "metaclip2_worldwide", 1, SQUASH, BICUBIC, CLIP},
    {"vit_huge_patch14_clip_quickgelu_224",
     "dfn5b metaclip2_worldwide metaclip_2pt5b",
     1, CENTER, BICUBIC, CLIP},
    {"vit_huge_patch14_clip_quickgelu_378", "dfn5b", 1, CENTER, BICUBIC, CLIP},
    {"vit_huge_patch14_gap_224", "in1k_ijepa in22k_ijepa", 0.9, CENTER, BICUBIC, INET},
    {"vit_huge_patch16_gap_448", "in1k_ijepa", 1, CENTER, BICUBIC, INET},
    {"vit_large_patch14_224", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch14_clip_224",
     "laion2b_ft_in12k_in1k laion2b laion2b_ft_in12k laion2b_ft_in1k",
     1, CENTER, BICUBIC, HALF},
    {"vit_large_patch14_clip_224",
     "apple_mclip2_dfndr2b datacompxl dfn2b dfn2b_s39b laion400m_e32 metaclip_2pt5b "
     "metaclip_400m openai openai_ft_in12k openai_ft_in12k_in1k openai_ft_in1k",
     1, CENTER, BICUBIC, CLIP},
    {"vit_large_patch14_clip_336",
     "laion2b_ft_in12k_in1k laion2b_ft_in1k",
     1, SQUASH, BICUBIC, HALF},
    {"vit_large_patch14_clip_336", "openai", 1, CENTER, BICUBIC, CLIP},
    {"vit_large_patch14_clip_336", "openai_ft_in12k_in1k", 1, SQUASH, BICUBIC, CLIP},
    {"vit_large_patch14_clip_quickgelu_224",
     "dfn2b metaclip_2pt5b metaclip_400m openai",
     1, CENTER, BICUBIC, CLIP},
    {"vit_large_patch14_clip_quickgelu_336", "openai", 1, CENTER, BICUBIC, CLIP},
    {"vit_large_patch14_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_large_patch14_reg4_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_large_patch16_224",
     "augreg_in21k_ft_in1k augreg_in21k orig_in21k",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_224", "mae", 0.9, CENTER, BICUBIC, INET},
    {"vit_large_patch16_384", "augreg_in21k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_siglip_256", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_siglip_384", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_siglip_512", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_siglip_gap_256", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_siglip_gap_384", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch16_siglip_gap_512", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch32_224", "orig_in21k", 0.9, CENTER, BICUBIC, HALF},
    {"vit_large_patch32_384", "orig_in21k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_little_patch16_reg1_gap_256",
     "sbb_in12k_ft_in1k sbb_in12k",
     0.95, CENTER, BICUBIC, HALF},
    {"vit_little_patch16_reg4_gap_256", "sbb_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"vit_medium_patch16_clip_224", "tinyclip_yfcc15m", 0.9, CENTER, BICUBIC, CLIP},
    {"vit_medium_patch16_gap_240", "sw_in12k", 0.95, CENTER, BICUBIC, HALF},
    {"vit_medium_patch16_gap_256", "sw_in12k_ft_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"vit_medium_patch16_gap_384", "sw_in12k_ft_in1k", 0.95, SQUASH, BICUBIC, HALF},
    {"vit_medium_patch16_reg1_gap_256", "sbb_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"vit_medium_patch16_reg4_gap_256",
     "sbb_in12k_ft_in1k sbb_in12k sbb_in1k",
     0.95, CENTER, BICUBIC, HALF},
    {"vit_medium_patch32_clip_224", "tinyclip_laion400m", 0.9, CENTER, BICUBIC, CLIP},
    {"vit_mediumd_patch16_reg4_gap_256",
     "sbb2_e200_in12k_ft_in1k sbb2_e200_in12k sbb_in12k sbb_in12k_ft_in1k",
     0.95, CENTER, BICUBIC, HALF},
    {"vit_mediumd_patch16_reg4_gap_384", "sbb2_e200_in12k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_small_patch14_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_small_patch14_reg4_dinov2", "lvd142m", 1, CENTER, BICUBIC, INET},
    {"vit_small_patch16_224",
     "augreg_in21k_ft_in1k augreg_in1k augreg_in21k",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_small_patch16_224", "dino", 0.9, CENTER, BICUBIC, INET},
    {"vit_small_patch16_36x1_224", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_small_patch16_384", "augreg_in21k_ft_in1k augreg_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_small_patch32_224", "augreg_in21k_ft_in1k augreg_in21k", 0.9, CENTER, BICUBIC, HALF},
    {"vit_small_patch32_384", "augreg_in21k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_small_patch8_224", "dino", 0.9, CENTER, BICUBIC, INET},
    {"vit_so150m2_patch16_reg1_gap_256",
     "sbb_e200_in12k_ft_in1k sbb_e200_in12k",
     1, CENTER, BICUBIC, HALF},
    {"vit_so150m2_patch16_reg1_gap_384", "sbb_e200_in12k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_so150m2_patch16_reg1_gap_448", "sbb_e200_in12k_ft_in1k", 1, SQUASH, BICUBIC, HALF},
    {"vit_so150m_patch16_reg4_gap_256",
     "sbb_e250_in12k_ft_in1k sbb_e250_in12k",
     0.95, CENTER, BICUBIC, HALF},
    {"vit_so150m_patch16_reg4_gap_384", "sbb_e250_in12k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_so150m_patch16_reg4_map_256", "", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_224", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_378", "v2_webli webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_378", "webli_ft_in1k", 1, SQUASH, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_gap_224",
     "v2_webli pali2_10b_pt pali2_3b_pt pali_mix pali_pt webli",
     0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_gap_378", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_gap_378", "webli", 1, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_gap_378", "webli_ft_in1k", 1, SQUASH, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_gap_448",
     "pali_mix pali2_10b_docci pali2_10b_pt pali2_3b_docci pali2_3b_pt pali_ocrvqa pali_pt "
     "pali_refcoco_seg",
     1, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch14_siglip_gap_896",
     "pali_pt pali2_10b_pt pali2_3b_pt pali_ocrvqa pali_refcoco_seg",
     1, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch16_siglip_256", "v2_webli webli_i18n", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch16_siglip_384", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch16_siglip_512", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch16_siglip_gap_256", "v2_webli webli_i18n", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch16_siglip_gap_384", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_so400m_patch16_siglip_gap_512", "v2_webli", 0.9, CENTER, BICUBIC, HALF},
    {"vit_tiny_patch16_224", "augreg_in21k_ft_in1k augreg_in21k", 0.9, CENTER, BICUBIC, HALF},
    {"vit_tiny_patch16_384", "augreg_in21k_ft_in1k", 1, CENTER, BICUBIC, HALF},
    {"vit_wee_patch16_reg1_gap_256", "sbb_in1k", 0.95, CENTER, BICUBIC, HALF},
    {"vit_xsmall_patch16_clip_224", "tinyclip_yfcc15m", 0.9, CENTER, BICUBIC, CLIP},
};
/* clang-format on */

/* Whether `tag` is a word of the blank-separated list. */
static bool tag_listed(const char *list, const char *tag) {
    size_t length = strlen(tag);
    for (const char *word = list; *word; word += strcspn(word, " "), word += *word == ' ') {
        if (strcspn(word, " ") == length && strncmp(word, tag, length) == 0) return true;
    }
    return false;
}

static void tag_fill(const struct tag_row *row, int image, struct preprocess_spec *out) {
    static const char *const modes[] = {"center", "squash", "border"};
    static const char *const kernels[] = {"bicubic", "bilinear"};
    static const double means[][3] = {
        {0.485, 0.456, 0.406}, {0.5, 0.5, 0.5}, {0.48145466, 0.4578275, 0.40821073}, {0, 0, 0}};
    static const double stds[][3] = {
        {0.229, 0.224, 0.225}, {0.5, 0.5, 0.5}, {0.26862954, 0.26130258, 0.27577711}, {1, 1, 1}};
    out->height = out->width = image;
    out->crop_pct = row->crop_pct;
    snprintf(out->crop_mode, sizeof out->crop_mode, "%s", modes[row->crop_mode]);
    snprintf(out->interpolation, sizeof out->interpolation, "%s", kernels[row->interpolation]);
    snprintf(out->crop_rounding, sizeof out->crop_rounding, "half_even");
    memcpy(out->mean, means[row->stats], sizeof out->mean);
    memcpy(out->std, stds[row->stats], sizeof out->std);
}

bool architecture_preprocess(const char *name, struct preprocess_spec *out, const char **tag) {
    const struct architecture *arch = architecture_find(name);
    const char *wanted = strchr(name, '.');
    for (size_t i = 0; arch && i < COUNT_OF(tags); i++) {
        if (strcmp(tags[i].name, arch->name) != 0) continue;
        if (wanted && !tag_listed(tags[i].tags, wanted + 1)) continue;
        tag_fill(&tags[i], arch->image, out);
        *tag = wanted ? wanted + 1 : tags[i].tags;
        return true;
    }
    return false;
}
