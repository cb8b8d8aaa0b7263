/*
 * The pipeline: order, batches, errors in their place, early ends; each over thread counts and
 * batch sizes. Sources make their pictures themselves, so that nothing here depends on a decoder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/pipeline.h"

#include <cmocka.h> /* last: it defines fail() */

enum { SIDE = 4, MOST = 200 };

/* Item n is a picture filled with n % 251; where `broken` says 'x', bytes that are no image. */
struct source {
    size_t count, next;
    const char *broken; /* repeated; NULL = all good */
    bool uneven;        /* earlier items take longer, so that later ones are done first */
};

struct seen {
    size_t items, good, batches, largest, order_faults, pixel_faults;
    size_t stop_after; /* batches; 0 = never */
    char errors[MOST + 1];
    bool want_images;
    /* What was said of the batch to come. */
    const uint8_t *ahead;
    int ahead_count;
    size_t aheads, ahead_faults;
    bool slow; /* so that the workers get ahead */
};

static bool next(void *context, struct pipeline_item *item) {
    struct source *source = context;
    size_t n = source->next;
    if (n == source->count) return false;
    source->next++;
    item->path = str_format("item%zu", n);
    item->tag = (long)n;
    if (source->broken && source->broken[n % strlen(source->broken)] == 'x') {
        item->bytes = mem_zalloc(8, 1);
        item->size = 8;
        return true;
    }
    if (source->broken && source->broken[n % strlen(source->broken)] == 'e') {
        item->error = str_copy("known before");
        return true;
    }
    item->image = (struct image){.width = SIDE + (int)(n % 3), .height = SIDE, .orientation = 1};
    item->image.rgb = mem_zalloc((size_t)item->image.width * SIDE, 3);
    memset(item->image.rgb, (int)(n % 251), (size_t)item->image.width * SIDE * 3);
    if (source->uneven && n % 5 == 0) {
        struct timespec wait = {.tv_nsec = 200000};
        nanosleep(&wait, NULL);
    }
    return true;
}

/* The batch must be what the one before said of it, and what it says of the next must be there. */
static void check_ahead(struct seen *seen, const struct pipeline_batch *batch) {
    size_t first = seen->items + (size_t)batch->count;
    if (seen->ahead && (batch->pixels != seen->ahead || batch->good != seen->ahead_count ||
                        batch->count != seen->ahead_count))
        seen->ahead_faults++;
    seen->ahead = batch->ahead;
    seen->ahead_count = batch->ahead_count;
    if (!batch->ahead) return;
    seen->aheads++;
    for (size_t i = 0; i < (size_t)batch->ahead_count; i++)
        for (size_t p = 0; p < SIDE * SIDE * 3; p++)
            if (batch->ahead[i * SIDE * SIDE * 3 + p] != (first + i) % 251) seen->ahead_faults++;
}

static enum status look(void *context, const struct pipeline_batch *batch) {
    struct seen *seen = context;
    size_t at = 0;
    if (seen->slow) {
        struct timespec wait = {.tv_nsec = 2000000};
        nanosleep(&wait, NULL);
    }
    check_ahead(seen, batch);
    for (int i = 0; i < batch->count; i++) {
        const struct pipeline_item *item = &batch->items[i];
        char path[32];
        snprintf(path, sizeof path, "item%zu", seen->items);
        if (item->number != seen->items || item->tag != (long)seen->items ||
            strcmp(item->path, path) != 0)
            seen->order_faults++;
        if (seen->items < MOST) seen->errors[seen->items] = item->error ? 'x' : '.';
        seen->items++;
        if (item->error) continue;
        seen->good++;
        if (item->width != SIDE + (int)(item->number % 3) ||
            (item->image.rgb != NULL) != seen->want_images)
            seen->order_faults++;
        for (size_t p = 0; p < SIDE * SIDE * 3; p++)
            if (batch->pixels[at * SIDE * SIDE * 3 + p] != item->number % 251) seen->pixel_faults++;
        at++;
    }
    if (at != (size_t)batch->good) seen->order_faults++;
    if ((size_t)batch->count > seen->largest) seen->largest = (size_t)batch->count;
    if (++seen->batches == seen->stop_after) return (fail)(ST_DEVICE, "the model said no");
    return ST_OK;
}

static const struct preprocess rule = {.height = SIDE,
                                       .width = SIDE,
                                       .crop_pct = 1,
                                       .crop_mode = CROP_SQUASH,
                                       .interpolation = FILTER_NEAREST,
                                       .std = {1, 1, 1}};

static struct pipeline make(struct source *source, struct seen *seen, int threads, int batch,
                            bool total_known) {
    memset(seen, 0, sizeof *seen);
    return (struct pipeline){.next = next,
                             .source = source,
                             .on_batch = look,
                             .context = seen,
                             .total = total_known ? source->count : 0,
                             .batch = batch,
                             .threads = threads,
                             .preprocess = &rule};
}

static const int thread_counts[] = {1, 2, 3, 8};
static const int batch_sizes[] = {1, 2, 7, 64};
static const size_t counts[] = {0, 1, 2, 7, 8, 63, 130};
static const char *const broken[] = {NULL, "x", ".x", "x.", "..xx...e", "e.........."};

static void test_order(void **state) {
    (void)state;
    for (size_t t = 0; t < COUNT_OF(thread_counts); t++)
        for (size_t b = 0; b < COUNT_OF(batch_sizes); b++)
            for (size_t c = 0; c < COUNT_OF(counts); c++)
                for (size_t e = 0; e < COUNT_OF(broken); e++) {
                    struct source source = {.count = counts[c],
                                            .broken = broken[e],
                                            .uneven = c + 1 == COUNT_OF(counts)};
                    struct pipeline_totals totals;
                    struct seen seen;
                    struct pipeline pipeline =
                        make(&source, &seen, thread_counts[t], batch_sizes[b], e % 2);
                    size_t failed = 0;
                    pipeline.look_ahead = e % 2 == 0;
                    pipeline.keep_images = seen.want_images = e % 3 == 0;
                    assert_int_equal(pipeline_run(&pipeline, &totals), ST_OK);
                    for (size_t n = 0; n < counts[c]; n++) {
                        bool bad = broken[e] && broken[e][n % strlen(broken[e])] != '.';
                        failed += bad;
                        assert_int_equal(seen.errors[n], bad ? 'x' : '.');
                    }
                    assert_int_equal(seen.items, counts[c]);
                    assert_int_equal(totals.images, counts[c]);
                    assert_int_equal(totals.failed, failed);
                    assert_int_equal(seen.good, counts[c] - failed);
                    assert_int_equal(seen.order_faults, 0);
                    assert_int_equal(seen.pixel_faults, 0);
                    assert_int_equal(seen.ahead_faults, 0);
                    assert_true(pipeline.look_ahead || seen.aheads == 0);
                    assert_true(seen.largest <= (size_t)batch_sizes[b]);
                }
}

/* stop_on_error: what stands before the first fault, the fault, and nothing after. */
static void test_stop_on_error(void **state) {
    (void)state;
    for (size_t t = 0; t < COUNT_OF(thread_counts); t++)
        for (size_t b = 0; b < COUNT_OF(batch_sizes); b++)
            for (int first = 0; first < 30; first += 3) {
                char faults[32] = "...............................";
                struct source source = {.count = 100, .broken = faults};
                struct pipeline_totals totals;
                struct seen seen;
                struct pipeline pipeline =
                    make(&source, &seen, thread_counts[t], batch_sizes[b], true);
                faults[first] = 'x';
                pipeline.stop_on_error = true;
                assert_int_equal(pipeline_run(&pipeline, &totals), ST_OK);
                assert_int_equal(seen.items, first + 1);
                assert_int_equal(totals.failed, 1);
                assert_int_equal(seen.order_faults + seen.pixel_faults, 0);
            }
}

/* A batch that fails ends the run with its status and sentence, whatever the workers were at. */
static void test_model_fails(void **state) {
    (void)state;
    for (size_t t = 0; t < COUNT_OF(thread_counts); t++)
        for (size_t after = 1; after < 6; after++) {
            struct source source = {.count = 100, .uneven = true};
            struct pipeline_totals totals;
            struct seen seen;
            struct pipeline pipeline = make(&source, &seen, thread_counts[t], 4, true);
            seen.stop_after = after;
            assert_int_equal(pipeline_run(&pipeline, &totals), ST_DEVICE);
            assert_string_equal(fail_message(), "the model said no");
            assert_int_equal(seen.items, 4 * after);
        }
}

/* The ring bounds what is read ahead: here two batches of four, and those of the first. */
static void test_bounded(void **state) {
    struct source source = {.count = 150};
    struct pipeline_totals totals;
    struct seen seen;
    struct pipeline pipeline = make(&source, &seen, 2, 4, false);
    (void)state;
    seen.stop_after = 1;
    assert_int_equal(pipeline_run(&pipeline, &totals), ST_DEVICE);
    assert_true(source.next <= 4 + 8);
}

/* With the workers faster than the model, most batches are announced; without any, none. */
static void test_look_ahead(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct source source = {.count = 121, .broken = "..............................x"};
        struct pipeline_totals totals;
        struct seen seen;
        struct pipeline pipeline = make(&source, &seen, threads, 8, true);
        pipeline.look_ahead = true;
        seen.slow = true;
        assert_int_equal(pipeline_run(&pipeline, &totals), ST_OK);
        assert_int_equal(seen.batches, 16);
        assert_int_equal(seen.ahead_faults, 0);
        if (threads == 1)
            assert_int_equal(seen.aheads, 0);
        else
            assert_in_range(seen.aheads, 4, 12); /* 12 of the 15 to come are whole and good */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_stop_on_error),
        cmocka_unit_test(test_model_fails), cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_look_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
