/*
 * patch_embed_cpu: pixels (B, H, W, 3) uint8 -> tok (B, N, C) = proj((pixels/255 - mean)/std by
 * patches).
 *
 * A task takes some patches of one image, looks every byte up in a table of 3 x 256 normalised
 * values, lays the patches out as rows (K = 3*ph*pw values in channel, y, x order) in the worker's
 * scratch, and multiplies.
 */
#include "kernels/cpu.h"

/* 49 x 768 x 4 = 147 KiB of patches at a time, and four tasks an image of 14 x 14. */
#define BLOCK_PATCHES 56

struct patch_call {
    const struct cpu *cpu;
    const struct patch_spec *patch;
    const struct cpu_linear *proj;
    const uint8_t *pixels;
    const struct act *tok;
    int blocks;         /* tasks an image */
    size_t rows_floats; /* scratch before the product's own, a multiple of 64 */
    float values[3][256];
    _Atomic int failed; /* an enum status */
};

/* The arithmetic of torchvision: v = byte/255, then (v - mean)/std, each rounded to fp32. */
static void fill_values(const struct patch_spec *patch, float values[3][256]) {
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < 256; i++) {
            volatile float centred =
                (float)i / 255.0f; /* volatile: no contraction, no double rounding */
            centred = centred - patch->mean[c];
            values[c][i] = centred / patch->std[c];
        }
    }
}

/* Patch `index` of an image (H, W, 3) as a row (3, ph, pw). */
static void gather(const struct patch_call *call, const uint8_t *image, int index, float *row) {
    const struct patch_spec *patch = call->patch;
    int per_row = patch->image_w / patch->patch_w;
    size_t plane = (size_t)patch->patch_h * (size_t)patch->patch_w,
           pitch = (size_t)patch->image_w * 3;
    const uint8_t *corner = image + (size_t)(index / per_row) * (size_t)patch->patch_h * pitch +
                            (size_t)(index % per_row) * (size_t)patch->patch_w * 3;
    for (int y = 0; y < patch->patch_h; y++, corner += pitch) {
        const uint8_t *pixel = corner;
        for (int x = 0; x < patch->patch_w; x++, pixel += 3, row++) {
            row[0] = call->values[0][pixel[0]];
            row[plane] = call->values[1][pixel[1]];
            row[2 * plane] = call->values[2][pixel[2]];
        }
    }
}

static void patch_task(void *context, int number, int worker) {
    struct patch_call *call = context;
    const struct patch_spec *patch = call->patch;
    int image = number / call->blocks, block = number % call->blocks;
    int first = cpu_block_row(call->tok->tokens, call->blocks, block);
    int last = cpu_block_row(call->tok->tokens, call->blocks, block + 1);
    size_t width = (size_t)call->proj->head.in;
    const uint8_t *pixels =
        call->pixels + (size_t)image * (size_t)patch->image_h * (size_t)patch->image_w * 3;
    float *rows = cpu_worker_scratch(call->cpu, worker);
    struct gemm_task task = {
        .x = rows,
        .x_pitch = width,
        .y = act_row(call->tok, image, first),
        .y_pitch = call->tok->pitch,
        .rows = last - first,
        .epilogue = EPILOGUE_NONE,
    };
    for (int i = first; i < last; i++)
        gather(call, pixels, i, rows + (size_t)(i - first) * width);
    for (int i = 0; i < call->proj->piece_count; i++) {
        enum status st =
            cpu_piece_run(call->cpu, call->proj, i, &task, worker, rows + call->rows_floats);
        if (st != ST_OK) call->failed = (int)st;
    }
}

enum status cpu_patch_embed(struct backend *be, const struct patch_spec *patch,
                            const uint8_t *pixels, const struct act *tok) {
    struct cpu *cpu = cpu_of(be);
    struct patch_call call = {.cpu = cpu,
                              .patch = patch,
                              .pixels = pixels,
                              .tok = tok,
                              .proj = (const struct cpu_linear *)patch->proj};
    int rows;
    call.blocks = tok->tokens / BLOCK_PATCHES + (tok->tokens % BLOCK_PATCHES != 0);
    rows = cpu_block_row(tok->tokens, call.blocks, 1);
    for (int i = 0; i < (tok->tokens % call.blocks ? 2 : 1); i++) { /* the two heights that occur */
        struct gemm_task task = {.x_pitch = (size_t)call.proj->head.in,
                                 .y_pitch = tok->pitch,
                                 .rows = rows - i,
                                 .epilogue = EPILOGUE_NONE};
        TRY(cpu_piece_prepare(cpu, call.proj, &task));
    }
    call.rows_floats = ((size_t)rows * (size_t)call.proj->head.in + 63) / 64 * 64;
    TRY(cpu_scratch(cpu, call.rows_floats + cpu_piece_scratch(cpu, call.proj, rows)));
    if (be->planning) return ST_OK;
    fill_values(patch, call.values);
    threads_run(cpu->threads, tok->batch * call.blocks, patch_task, &call);
    return (enum status)call.failed;
}
