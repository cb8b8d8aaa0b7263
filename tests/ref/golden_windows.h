/* Written by tests/ref/windows_golden.py with timm 1.0.31. */
#ifndef TESTS_REF_GOLDEN_WINDOWS_H
#define TESTS_REF_GOLDEN_WINDOWS_H

#include <stdint.h>

static const struct {
    int window_h, window_w;
    uint64_t hash;
} golden_bias_index[] = {
    {1, 1, 0x4d25767f9dce13f5u},
    {2, 2, 0x7176557cb9f26829u},
    {3, 3, 0x6e79161eab1edfc1u},
    {4, 4, 0xa0dd0a9170f5aaa5u},
    {5, 5, 0xd0017a49ad5ad505u},
    {6, 6, 0x506f1f632e95f149u},
    {7, 7, 0x9288b854ebd53e31u},
    {8, 8, 0x2083a006815330e5u},
    {9, 9, 0x8bbd9e3a06ad122au},
    {10, 10, 0x715c6421b1c26859u},
    {11, 11, 0xecb3f192593e3576u},
    {12, 12, 0x156cb9cab7002384u},
    {13, 13, 0xfbdfc38cc9865517u},
    {14, 14, 0x9c7d06d7876ea73cu},
    {15, 15, 0x7c592f2207a67e61u},
    {16, 16, 0x5596988b9eadce35u},
    {17, 17, 0x9641f32d577d8f89u},
    {18, 18, 0xbb5ec7ac95cac694u},
    {19, 19, 0xdb5792f7d084c113u},
    {20, 20, 0x0a3c7b70dd4da1b7u},
    {21, 21, 0xfd8ac7e5ba6445cau},
    {22, 22, 0x4a17f0365b323e21u},
    {23, 23, 0x2b9993e26d1ee568u},
    {24, 24, 0x68428174cecf79ebu},
    {7, 5, 0xb0277a966292bb8bu},
    {5, 7, 0x44c63e38e91154dbu},
    {1, 8, 0xd8242a4641c38a25u},
    {12, 3, 0x1c9f2c11d4d7019du},
};

static const struct {
    int window_h, window_w, shift_h, shift_w, most; /* maps up to most x most */
    uint64_t hash;
} golden_masks[] = {
    {2, 2, 1, 1, 20, 0x572bf3efeed78625u},
    {3, 3, 1, 1, 20, 0x21b9751f9415bd5fu},
    {4, 4, 2, 2, 20, 0x729e217b056f2f25u},
    {4, 4, 3, 1, 20, 0xd3cc440f5442b625u},
    {5, 5, 2, 2, 20, 0x7fa6716c3763a5f5u},
    {7, 7, 3, 3, 12, 0xa4e87cd20d041cffu},
    {8, 8, 4, 4, 12, 0xf14ae6c32e43e325u},
    {7, 5, 3, 2, 12, 0x2d17133a9750ca8fu},
    {6, 4, 0, 2, 20, 0x3d977976cba9d125u},
    {4, 7, 2, 0, 20, 0x13a47112c72bc685u},
};

#endif
