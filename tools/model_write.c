/*
 * model_write: see model_write.h. convert_write -> a model without a self-test -> run once in fp32
 * on the CPU -> copied with the answer -> renamed.
 */
#include "tools/model_write.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "weights/temporary.h"
#include "tools/devices.h"
#include "tools/model.h"

#define SELFTEST_TOLERANCE 1e-4 /* what fp32 may differ by, of the greatest output */

/* A smooth picture with something in every channel and no symmetry: waves of unrelated lengths. */
static void draw_test_image(uint8_t *rgb, int height, int width) {
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            for (int c = 0; c < 3; c++) {
                double u = (double)x / width, v = (double)y / height;
                double wave = 52 * sin(19.0 * u + 7.0 * v + 2.1 * c) +
                              40 * sin(11.0 * v - 29.0 * u * v + 1.3 * c) +
                              30 * cos(41.0 * u + 3.0 * c) * sin(37.0 * v);
                rgb[((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c] =
                    (uint8_t)lround(127.5 + wave);
            }
        }
    }
}

/* Runs `path` on the test picture: the logits, or the pooled features of a model without head. */
static enum status compute_selftest(const char *path, const struct devices *devices,
                                    struct selftest *test) {
    struct model_options options = {.max_batch = 1};
    struct model model = {0};
    enum status st = ST_NOMEM;
    TRY(model_open(path, &options, devices, &model));
    test->height = model.preprocess.height;
    test->width = model.preprocess.width;
    test->count = (size_t)(model.classes ? model.classes : model.dim);
    test->tolerance = SELFTEST_TOLERANCE;
    test->image = mem_zalloc((size_t)test->height * (size_t)test->width, 3);
    test->expected = mem_zalloc(test->count, sizeof *test->expected);
    test->origin = str_format("vitrine %s cpu fp32", VERSION);
    if (test->image && test->expected && test->origin) {
        struct model_taps taps = {.layer = -1, .pooled = test->expected};
        draw_test_image(test->image, test->height, test->width);
        st = model_forward(&model, test->image, 1, model.classes ? test->expected : NULL,
                           model.classes ? NULL : &taps);
    }
    model_release(&model);
    for (size_t i = 0; st == ST_OK && i < test->count; i++) {
        if (!isfinite(test->expected[i]))
            st = fail(ST_FORMAT, "%s: its output %zu for the test picture is not finite", path, i);
    }
    return st;
}

static enum status copy_labels(struct h5 *from, struct h5 *to, int classes) {
    char **ids = NULL, **names = NULL;
    size_t count = 0;
    enum status st = labels_group_read(from, classes, &ids, &names, &count);
    if (st == ST_OK && count)
        st = labels_group_write(to, (int)count, (const char *const *)ids,
                                (const char *const *)names);
    h5_free_names(ids, count);
    h5_free_names(names, count);
    return st;
}

static enum status copy_config(struct h5 *from, struct h5 *to, const char *family, int *classes) {
    struct vit_config vit;
    struct swin_config swin;
    if (strcmp(family, "swin") == 0) {
        TRY(swin_config_read(from, &swin));
        *classes = swin.classes;
        return swin_config_write(to, &swin);
    }
    TRY(vit_config_read(from, &vit));
    *classes = vit.classes;
    return vit_config_write(to, &vit);
}

static enum status copy_head(struct h5 *from, struct h5 *to) {
    struct model_info info = {0};
    struct preprocess_spec spec;
    int classes = 0;
    enum status st;
    TRY(model_info_read(from, &info));
    st = model_info_write(to, &info);
    if (st == ST_OK) st = copy_config(from, to, info.family, &classes);
    model_info_release(&info);
    TRY(st);
    TRY(preprocess_spec_read(from, &spec));
    TRY(preprocess_spec_write(to, &spec));
    return copy_labels(from, to, classes);
}

static enum status copy_dataset(struct h5 *from, struct h5 *to, const struct h5_dataset *d) {
    size_t count = 1;
    char *path = str_format("/parameters/%s", d->name);
    void *data = NULL;
    enum status st = path ? ST_OK : ST_NOMEM;
    for (int i = 0; st == ST_OK && i < d->rank; i++) {
        if (!size_mul(count, d->dims[i], &count)) st = fail(ST_NOMEM, "%s: is too large", d->name);
    }
    if (st == ST_OK && !(data = mem_zalloc(count, dtype_size(d->dtype)))) st = ST_NOMEM;
    if (st == ST_OK) st = h5_read_raw(from, path, d->dtype, data, count);
    if (st == ST_OK) st = h5_write(to, path, d->dtype, d->rank, d->dims, data);
    mem_free(data);
    mem_free(path);
    return st;
}

static enum status copy_model(struct h5 *from, struct h5 *to, const struct selftest *test) {
    struct h5_dataset *datasets = NULL;
    size_t count = 0;
    enum status st;
    TRY(copy_head(from, to));
    TRY(selftest_write(to, test));
    TRY(h5_make_group(to, "/parameters"));
    TRY(h5_list(from, "/parameters", &datasets, &count));
    st = ST_OK;
    for (size_t i = 0; st == ST_OK && i < count; i++)
        st = copy_dataset(from, to, &datasets[i]);
    h5_free_datasets(datasets, count);
    return st;
}

/* `path` = the model `plain` with the self-test in it; written beside and renamed. */
static enum status write_tested(const char *plain, const struct selftest *test, const char *path) {
    struct h5 *from = NULL, *to = NULL;
    char *part = str_format("%s.part-%ld", path, (long)getpid());
    enum status st = part ? h5_open(plain, &from) : ST_NOMEM;
    if (st == ST_OK) temporary_add(part);
    if (st == ST_OK) st = h5_create(part, &to);
    if (st == ST_OK) st = copy_model(from, to, test);
    if (h5_close(&to) != ST_OK && st == ST_OK) st = ST_IO;
    if (h5_close(&from) != ST_OK && st == ST_OK) st = ST_IO;
    if (st == ST_OK && rename(part, path) != 0) st = fail(ST_IO, "%s: %s", path, strerror(errno));
    if (st != ST_OK && part) unlink(part);
    if (part) temporary_forget(part);
    mem_free(part);
    return st;
}

/*
 * Runs the model at `plain` in fp32 on the CPU and writes it with the answer to `path`. A model
 * that cannot be run is an error: its conversion was wrong.
 */
static enum status add_selftest(const char *plain, const char *path) {
    struct backend_options options = {.device = "cpu", .precision = "fp32"};
    struct devices devices;
    struct selftest test = {0};
    enum status st;
    TRY(devices_open(&options, &devices));
    st = compute_selftest(plain, &devices, &test);
    devices_close(&devices);
    if (st == ST_OK) st = write_tested(plain, &test, path);
    selftest_release(&test);
    return st;
}

/* The sentence with `path` in the place of the name of a file beside it, which is soon gone. */
static enum status name_plainly(enum status st, const char *path) {
    static const char *const marks[] = {".untested-", ".part-"};
    const size_t length = strlen(path);
    char text[1024];
    snprintf(text, sizeof text, "%s", fail_message());
    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        char *at = strstr(text, path), *rest;
        while (at && strncmp(at + length, marks[i], strlen(marks[i])) != 0)
            at = strstr(at + 1, path);
        if (!at) continue;
        rest = at + length + strlen(marks[i]);
        rest += strspn(rest, "0123456789");
        if (strncmp(rest, ".h5", 3) == 0) rest += 3;
        memmove(at + length, rest, strlen(rest) + 1);
    }
    return fail(st, "%s", text);
}

enum status model_write(struct checkpoint *checkpoint, const struct convert_options *options,
                        struct conversion *c, const char *path) {
    char *plain = str_format("%s.untested-%ld.h5", path, (long)getpid());
    enum status st = plain ? ST_OK : ST_NOMEM;
    if (st == ST_OK && !c->info.name && !(c->info.name = convert_model_name(path))) st = ST_NOMEM;
    if (st == ST_OK) temporary_add(plain);
    if (st == ST_OK) st = convert_write(checkpoint, options, c, plain);
    if (st == ST_OK) {
        checkpoint_release(checkpoint);
        st = add_selftest(plain, path);
    }
    if (plain) temporary_remove(plain);
    if (st != ST_OK) st = name_plainly(st, path);
    mem_free(plain);
    return st;
}
