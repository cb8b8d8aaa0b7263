/* test_picture_queue: the files of one thread and of several, more than wait at once; faults. */
#include "tools/picture_queue.h" // before cmocka.h, which has a macro `fail`

#include <stdlib.h>
#include <unistd.h>

#include "kernels/threads.h"
#include "tests/golden.h"
#include "tools/canvas.h"
#include "tools/picture.h"

enum { PICTURES = 70 /* more than wait */ };

static bool can_write(void) {
    const uint8_t pixel[3] = {1, 2, 3};
    struct picture_bytes bytes = {0};
    const bool can = picture_png(pixel, 1, 1, 3, &bytes) == ST_OK;
    picture_bytes_release(&bytes);
    return can;
}

/* Picture i: its own size and colour. */
static void add(struct picture_queue *queue, int i) {
    struct image picture;
    demand(canvas_open(3 + i % 5, 1 + i % 7, (uint32_t)i * 0x010203, &picture));
    demand(picture_queue_add(queue, str_format("%d.png", i), &picture));
    assert_null(picture.rgb);
}

static bool is_there(int i) {
    const struct image_options options = image_defaults();
    struct image back = {0};
    char name[32];
    snprintf(name, sizeof name, "%d.png", i);
    if (access(name, F_OK) != 0) return false;
    demand(image_read(name, &options, &back));
    assert_int_equal(back.width, 3 + i % 5);
    assert_int_equal(back.height, 1 + i % 7);
    for (int p = 0; p < 3 * back.width * back.height; p++)
        assert_int_equal(back.rgb[p], i * (p % 3 + 1));
    image_release(&back);
    unlink(name);
    return true;
}

static void files(void **state) {
    static const int threads[] = {1, 2, 5};
    (void)state;
    if (!can_write()) skip();
    for (size_t t = 0; t < COUNT_OF(threads); t++) {
        struct picture_queue queue;
        demand(picture_queue_open(&queue, threads[t]));
        for (int i = 0; i < PICTURES; i++)
            add(&queue, i);
        assert_int_equal(queue.count, threads[t] > 1 ? PICTURES % queue.capacity : 0);
        demand(picture_queue_write(&queue));
        for (int i = 0; i < PICTURES; i++)
            if (!is_there(i)) fail_msg("%d threads: %d.png is not there", threads[t], i);
        demand(picture_queue_write(&queue)); /* nothing waits */
        picture_queue_release(&queue);
        picture_queue_release(&queue);
    }
}

/* A few large pictures do not wait for more. */
static void large(void **state) {
    struct picture_queue queue;
    struct image picture;
    (void)state;
    if (!can_write()) skip();
    demand(picture_queue_open(&queue, 2));
    for (int i = 0; i < 2; i++) {
        demand(canvas_open(6000, 4000, 0, &picture)); /* 72 MB */
        demand(picture_queue_add(&queue, str_format("large.png"), &picture));
        assert_int_equal(queue.count, i == 0);
    }
    picture_queue_release(&queue);
    unlink("large.png");
}

/* What is in front of a fault is written, what is behind it is not. */
static void faults(void **state) {
    static const struct {
        const char *path; /* NULL: the picture itself cannot be encoded */
        enum status want;
        const char *sentence;
    } cases[] = {
        {"no/such/folder.png", ST_IO, "no/such/folder.png: cannot be written: "},
        {".", ST_IO, ".: cannot be written: "},
        /* which does not wait either */
        {NULL, ST_NOMEM, "huge.png: a picture of 1048576x4096 is too large to be written"},
    };
    (void)state;
    if (!can_write()) skip();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct picture_queue queue;
        struct image picture;
        enum status st;
        demand(picture_queue_open(&queue, 3));
        add(&queue, 1);
        demand(canvas_open(1, 1, 0, &picture));
        if (!cases[i].path) picture.width = 1 << 20, picture.height = 1 << 12;
        st = picture_queue_add(&queue, str_copy(cases[i].path ? cases[i].path : "huge.png"),
                               &picture);
        if (st == ST_OK) {
            add(&queue, 2);
            st = picture_queue_write(&queue);
        }
        assert_int_equal(st, cases[i].want);
        if (strncmp(fail_message(), cases[i].sentence, strlen(cases[i].sentence)) != 0)
            fail_msg("'%s', want '%s'", fail_message(), cases[i].sentence);
        assert_true(is_there(1));
        assert_false(is_there(2));
        demand(picture_queue_write(&queue));
        picture_queue_release(&queue);
    }
}

static void no_memory(void **state) {
    struct picture_queue queue;
    struct image picture;
    (void)state;
    demand(picture_queue_open(&queue, 2));
    demand(canvas_open(2, 2, 0, &picture));
    assert_int_equal(picture_queue_add(&queue, NULL, &picture), ST_NOMEM);
    assert_null(picture.rgb);
    assert_int_equal(queue.count, 0);
    picture_queue_release(&queue);
    assert_int_equal(picture_queue_open(&queue, 0), ST_USAGE);
}

int main(void) {
    char home[] = "/tmp/vitrine-queue-XXXXXX";
    const struct CMUnitTest tests[] = {cmocka_unit_test(files), cmocka_unit_test(large),
                                       cmocka_unit_test(faults), cmocka_unit_test(no_memory)};
    int failed;
    if (!mkdtemp(home) || chdir(home) != 0) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(home) != 0 || failed;
}
