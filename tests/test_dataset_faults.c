/* test_dataset_faults: datasets whose file gives way under the reader; see dataset_told.h. */
#include "datasets/dataset.h" // before cmocka.h, which has a macro `fail`
#include "weights/h5.h"

#include <fnmatch.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdf5.h>

#include "tests/dataset_files.h"
#include "tests/dataset_told.h"
#include "tests/zip_sample.h"

static char home[] = "/tmp/vitrine-faults-XXXXXX";

static int make_home(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home) != 0;
}

static int drop_home(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", home);
    return chdir("/") != 0 || system(command) != 0;
}

/* ---- HDF5 ------------------------------------------------------------------------------------ */

/* Two images in one piece. */
static void put_whole(const char *path) {
    static const uint8_t images[2 * 2 * 2];
    static const int64_t labels[] = {0, 1};
    static const size_t dims[] = {2, 2, 2};
    struct h5 *file = NULL;
    assert_int_equal(h5_create(path, &file), ST_OK);
    assert_int_equal(h5_write(file, "/labels", DT_I64, 1, dims, labels), ST_OK);
    assert_int_equal(h5_write(file, "/images", DT_U8, 3, dims, images), ST_OK);
    assert_int_equal(h5_close(&file), ST_OK);
}

/* Six images in deflated chunks of two, the second of them damaged. */
static void put_broken_chunk(const char *path) {
    static const uint8_t images[6 * 2 * 2], garbage[40] = {0x78, 0x9c, 1, 2, 3};
    static const int64_t labels[6] = {0, 1, 2, 3, 4, 5};
    static const hsize_t dims[] = {6, 2, 2}, chunk[] = {2, 2, 2}, place[] = {2, 0, 0};
    static const size_t count[] = {6};
    struct h5 *file = NULL;
    assert_int_equal(h5_create(path, &file), ST_OK);
    assert_int_equal(h5_write(file, "/labels", DT_I64, 1, count, labels), ST_OK);
    assert_int_equal(h5_close(&file), ST_OK);
    const hid_t id = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT),
                create = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(3, dims, NULL);
    H5Pset_chunk(create, 3, chunk);
    H5Pset_deflate(create, 6);
    const hid_t set =
        H5Dcreate2(id, "/images", H5T_STD_U8LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, images) >= 0);
    assert_true(H5Dwrite_chunk(set, H5P_DEFAULT, 0, place, sizeof garbage, garbage) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(create);
    H5Fclose(id);
}

struct telling {
    struct dataset *dataset;
    char text[4096];
};

static void *tell_there(void *telling) {
    struct telling *t = telling;
    tell(t->dataset, t->text, sizeof t->text);
    return NULL;
}

/* Read in another thread, HDF5 prints nothing either. */
static void test_broken_chunk(void **state) {
    static struct telling told;
    const int kept = dup(STDERR_FILENO);
    pthread_t thread;
    struct stat printed;
    (void)state;
    put_broken_chunk("broken.h5");
    assert_int_equal(dataset_open("broken.h5", NULL, &told.dataset), ST_OK);
    assert_non_null(freopen("printed", "w", stderr));
    assert_int_equal(pthread_create(&thread, NULL, tell_there, &told), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fflush(stderr);
    assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    close(kept);
    dataset_close(told.dataset);
    if (fnmatch("hdf5: broken.h5#0>0 broken.h5#1>1 broken.h5#2!/images: cannot be read* "
                "broken.h5#3!/images: cannot be read* broken.h5#4>4 broken.h5#5>5",
                told.text, 0) != 0)
        fail_msg("%s", told.text);
    assert_int_equal(stat("printed", &printed), 0);
    assert_int_equal(printed.st_size, 0);
}

/* HDF5 gives zeros for what is gone: no picture may be made of them. */
static void test_became_shorter(void **state) {
    struct dataset *dataset = NULL;
    struct stat info;
    char text[4096];
    (void)state;
    put_whole("shorter.h5");
    assert_int_equal(dataset_open("shorter.h5", NULL, &dataset), ST_OK);
    assert_int_equal(stat("shorter.h5", &info), 0);
    assert_int_equal(truncate("shorter.h5", info.st_size - 1), 0);
    tell(dataset, text, sizeof text);
    dataset_close(dataset);
    if (fnmatch("hdf5: shorter.h5#0!became shorter while it was read: * bytes, * at the start "
                "shorter.h5#1!became shorter while it was read: * bytes, * at the start",
                text, 0) != 0)
        fail_msg("%s", text);
}

/* ---- archives -------------------------------------------------------------------------------- */

/* A copy without its last `less` bytes, one `back` bytes before the end flipped, and a tail. */
static void put_part(const char *path, const char *from, size_t less, size_t back, bool flip) {
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(from, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes - 4, file) : 0;
    if (file) fclose(file);
    if (flip) bytes[size - back] ^= 1;
    if (!flip && !less) bytes[size] = bytes[size + 1] = 0, size += 2;
    put_bytes(path, bytes, size - less);
}

/* A deflated zip whose third of four members is damaged, and tars that end or begin badly. */
static void put_archives(void) {
    static struct tar tar;
    static const uint8_t letter[] = "x";
    static const struct sample_member members[] = {{"cat/1.jpg", letter, 1},
                                                   {"cat/2.jpg", letter, 1},
                                                   {"dog/3.jpg", letter, 1},
                                                   {"dog/4.jpg", letter, 1}};
    struct sample zip = sample_pack(members, COUNT_OF(members), true);
    size_t data = 0;
    for (size_t i = 0; i + 9 <= zip.size && !data; i++)
        if (memcmp(zip.bytes + i, "dog/3.jpg", 9) == 0) data = i + 9;
    memset(zip.bytes + data, 0xff, 3);
    put_bytes("broken.zip", zip.bytes, zip.size);
    free(zip.bytes);
    tar_of(&tar, "cat/1.jpg=x cat/2.jpg=x dog/3.jpg=x");
    put_bytes("cut_in.tar", tar.bytes, 3 * 512);
    put_bytes("empty.tar", "", 0);
    put_gzip("good.tar.gz", tar.bytes, tar.size);
    put_part("sum.tar.gz", "good.tar.gz", 0, 8, true);
    put_part("short.tar.gz", "good.tar.gz", 8, 0, false);
    put_part("tail.tar.gz", "good.tar.gz", 0, 0, false);
    tar.bytes[150] ^= 1;
    put_bytes("damaged.tar", tar.bytes, tar.size);
}

static const struct {
    const char *path, *want;
} archives[] = {
    {"broken.zip", "archive: broken.zip/cat/1.jpg>cat broken.zip/cat/2.jpg>cat "
                   "broken.zip/dog/3.jpg!* broken.zip/dog/4.jpg>dog"},
    {"good.tar.gz", "archive: good.tar.gz/cat/1.jpg>cat good.tar.gz/cat/2.jpg>cat "
                    "good.tar.gz/dog/3.jpg>dog"},
    {"tail.tar.gz", "archive: tail.tar.gz/cat/1.jpg>cat tail.tar.gz/cat/2.jpg>cat "
                    "tail.tar.gz/dog/3.jpg>dog"},
    {"sum.tar.gz", "archive: sum.tar.gz/cat/1.jpg>cat sum.tar.gz/cat/2.jpg>cat "
                   "sum.tar.gz/dog/3.jpg>dog sum.tar.gz!gzip: incorrect data check"},
    {"short.tar.gz", "archive: short.tar.gz/cat/1.jpg>cat short.tar.gz/cat/2.jpg>cat "
                     "short.tar.gz/dog/3.jpg>dog short.tar.gz!gzip: ends early"},
    {"cut_in.tar",
     "archive: cut_in.tar/cat/1.jpg>cat cut_in.tar!*, in cat/2.jpg; nothing behind it "
     "could be read"},
};

static void test_archives(void **state) {
    (void)state;
    put_archives();
    for (size_t i = 0; HAVE_ARCHIVE && i < COUNT_OF(archives); i++) {
        struct dataset *dataset = NULL;
        char text[4096];
        assert_int_equal(dataset_open(archives[i].path, NULL, &dataset), ST_OK);
        tell(dataset, text, sizeof text);
        dataset_close(dataset);
        if (fnmatch(archives[i].want, text, 0) != 0) fail_msg("%s", text);
    }
}

static const struct {
    const char *path;
    enum status status;
    const char *words;
} refused[] = {
    {"", ST_USAGE, "the path of the dataset is empty"},
    {"pipe", ST_USAGE, "pipe: is a named pipe, expected a file, a folder, or a pipe as /dev/stdin"},
    {"pipe-{0..1}.tar", ST_USAGE, "pipe-1.tar: is no regular file; it is one of pipe-{0..1}.tar"},
    {"/dev/null", ST_USAGE, "/dev/null: is a device, expected"},
    {"empty.tar", ST_FORMAT, "empty.tar: is empty, expected a tar or zip archive"},
    {"damaged.tar", ST_FORMAT, "damaged.tar: begins like no archive, or its first header is"},
};

static void test_refused(void **state) {
    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(mkfifo("pipe-1.tar", 0600), 0);
    put_text("pipe-0.tar", "");
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct dataset *dataset = NULL;
        const enum status st = dataset_open(refused[i].path, NULL, &dataset);
        if (!HAVE_ARCHIVE && strstr(refused[i].path, ".tar")) continue;
        if (st != refused[i].status || !strstr(fail_message(), refused[i].words))
            fail_msg("%s: %s: '%s'", refused[i].path, status_name(st), fail_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_chunk),
        cmocka_unit_test(test_became_shorter),
        cmocka_unit_test(test_archives),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_home, drop_home);
}
