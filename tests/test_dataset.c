/*
 * test_dataset: every form of dataset.h as small files made here, good and bad. A dataset is told
 * as one text, "form: path>class path>- path!error", '-' where there is no label.
 */
#include "datasets/dataset.h" // before cmocka.h, which has a macro `fail`
#include "weights/h5.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/dataset_files.h"
#include "tests/dataset_told.h"
#include "tests/zip_sample.h"

static char home[] = "/tmp/vitrine-dataset-XXXXXX";

/* ---- the files ------------------------------------------------------------------------------- */

static const struct {
    const char *path, *text;
} texts[] = {
    {"classes/cat/1.jpg", "x"},
    {"classes/cat/2.png", "x"},
    {"classes/10/z.jpg", "x"},
    {"classes/9/z.jpg", "x"},
    {"classes/cat/notes.txt", "x"},
    {"classes/.hidden/1.jpg", "x"},
    {"deep/val/cat/more/1.jpg", "x"},
    {"deep/val/dog/1.jpg", "x"},
    {"mixed/cat/1.jpg", "x"},
    {"mixed/0.jpg", "x"},
    {"one/cat/1.jpg", "x"},
    {"flat/a.jpg", "x"},
    {"flat/b c.jpg", "x"},
    {"flat/d,e.jpg", "x"},
    {"bare/readme.txt", "x"},
    {"lists/here.jpg", "x"},
    {"lists/plain.csv", "a.jpg,cat\nb c.jpg,dog\n\"d,e.jpg\",\"the \"\"cat\"\"\"\n"},
    {"lists/head.csv", "\xef\xbb\xbf"
                       "label,extra,file_name\r\ncat,1,./a.jpg\r\n\r\ndog,2,b c.jpg\r\n"},
    {"lists/tabs.tsv", "a.jpg\tbig cat\nd,e.jpg\tdog"},
    {"lists/blanks.txt", "path label\nb c.jpg   3\na.jpg 4\n"},
    {"lists/gone.csv", "a.jpg,cat\nno.jpg,dog\nhere.jpg,dog\n"},
    {"lists/numbers.txt", "7\n8\r\n7\n"},
    {"lists/two.txt", "7\n8\n"},
    {"lists/four.txt", "7\n8\n7\n7\n"},
    {"lists/words.txt", "cat\ndog\ncat\n"},
    {"lists/twice.csv", "a.jpg,cat\n./a.jpg,dog\n"},
    {"lists/three.csv", "a.jpg,cat,dog\n"},
    {"lists/short.csv", "a.jpg,cat\nb c.jpg\n"},
    {"lists/quote.csv", "a.jpg,cat\n\"b c.jpg,dog\n"},
    {"lists/behind.csv", "\"a.jpg\"x,dog\n"},
    {"lists/nolabel.csv", "a.jpg,\n"},
    {"lists/nopath.csv", ",cat\n"},
    {"lists/head_only.csv", "path,label\n"},
    {"lists/empty.csv", "\n\r\n"},
    {"notes.md", "# nothing\n"},
    {"cifar/batches.meta.txt", "plane\ncar\n\n"},
    {"bad/test_batch.bin", "short"},
};

static const struct {
    const char *path, *members;
} tars[] = {
    {"t/folders.tar", "./val/cat/1.jpg=x val/cat/2.png=x val/dog/3.jpg=x val/readme.txt=x"},
    {"t/web.tar", "a.jpg=x a.cls=7 b.json={\"label\":\"dog\"} b.png=x c.jpg=x c.txt=cat "
                  "d.jpg=x e.jpg=x e.txt=no e.json={\"wnid\":\"n01\"}"},
    {"t/numbers.tar", "a.jpg=x a.json={\"x\":1,\"cls\":3} b.jpg=x b.json={\"x\":1}"},
    {"t/both.tar", "cat/a.jpg=x cat/a.cls=9 cat/b.jpg=x cat/b.txt=dog"},
    {"t/pair.tar", "a.jpg=x a.png=y a.cls=1 b.seg.png=x b.jpg=x b.cls=2 c.left.jpg=x c.right.jpg=y "
                   "c.cls=3 d.jpg=x d.png=y e.jpg=x"},
    {"t/twins.tar", "c/a.jpg=x c/a.png=y c/a.txt=both"},
    {"t/nine.tar", "a.cls=1 a.jpg=x a.1.png=x a.2.png=x a.3.png=x a.4.png=x a.5.png=x a.6.png=x "
                   "a.7.png=x a.8.png=x a.9.png=x b.jpg=x b.cls=2"},
    {"t/dots.tar", "c/p.1.jpg=x c/p.2.jpg=x c/p.3.jpg=x c/p.4.jpg=x c/p.5.jpg=x c/p.6.jpg=x "
                   "c/p.7.jpg=x c/p.8.jpg=x c/p.9.jpg=x"},
    {"t/nothing.tar", "a.txt=x"},
    {"t/hidden.tar", "c/1.jpg=x c/.2.jpg=x __MACOSX/c/1.jpg=x ../up/3.jpg=x /top/4.jpg=x"},
    {"t/badlabel.tar", "a.jpg=x a.json={ b.jpg=x b.cls= c.jpg=x c.cls=1"},
    {"shards/x-00.tar", "cat/1.jpg=x"},
    {"shards/x-01.tar", "cat/2.jpg=x"},
    {"shards/x-02.tar", "dog/3.jpg=x"},
};

static void make_archives(void) {
    static struct tar tar;
    static const uint8_t letter[] = "x";
    static const struct sample_member members[] = {{"cat/1.jpg", letter, 1},
                                                   {"k\xc3\xa4se/2.jpg", letter, 1}};
    for (size_t i = 0; i < COUNT_OF(tars); i++) {
        tar_of(&tar, tars[i].members);
        put_bytes(tars[i].path, tar.bytes, tar.size);
    }
    tar_of(&tar, "c/1.jpg=x c/2.jpg=y");
    put_gzip("t/packed.tar.gz", tar.bytes, tar.size);
    put_bytes("cut/a.tar", tar.bytes, 512 + 512 + 100);
    put_bytes("cut/b.tar", tar.bytes, tar.size);
    tar.bytes[1024 + 150] ^= 1; /* the second header's checksum */
    put_bytes("t/damaged.tar", tar.bytes, tar.size);
    memset(&tar, 0, sizeof tar);
    tar_add(&tar, "c", '5', "");
    tar_add(&tar, "c/1.jpg", '2', "2.jpg");
    tar_add(&tar, "c/2.jpg", '0', "x");
    tar_end(&tar);
    put_bytes("t/link.tar", tar.bytes, tar.size);
    tar_of(&tar, "c/1.jpg=x c/2.jpg=y");
    memcpy(tar.bytes + 124, "77777777777", 11); /* 8 GiB - 1 */
    tar_seal(tar.bytes);
    put_bytes("t/large.tar", tar.bytes, tar.size);
    struct sample zip = sample_pack(members, COUNT_OF(members), true);
    put_bytes("t/two.zip", zip.bytes, zip.size);
    put_bytes("t/cut.zip", zip.bytes, zip.size / 3);
    free(zip.bytes);
}

static const struct {
    const char *path;
    int type, rank;
    uint32_t dims[4];
    size_t data;
} idx[] = {
    {"mnist/t10k-images-idx3-ubyte", 8, 3, {2, 2, 3}, 12},
    {"mnist/t10k-labels-idx1-ubyte", 8, 1, {2}, 2},
    {"mnist/train-images-idx3-ubyte", 8, 3, {1, 2, 3}, 6},
    {"dotted/test-images.idx3-ubyte", 8, 4, {1, 1, 2, 3}, 6},
    {"dotted/test-labels-idx1-ubyte", 8, 1, {1}, 1},
    {"trained/images-idx3-ubyte", 8, 3, {1, 1, 1}, 1},
    {"trained/labels-idx1-ubyte", 8, 1, {1}, 1},
    {"many/a-images-idx3-ubyte", 8, 3, {1, 1, 1}, 1},
    {"many/b-images-idx3-ubyte", 8, 3, {1, 1, 1}, 1},
    {"i/alone-images-idx3-ubyte", 8, 3, {1, 1, 1}, 1},
    {"i/named", 8, 3, {1, 1, 1}, 1},
    {"i/count-images-idx3-ubyte", 8, 3, {2, 1, 1}, 2},
    {"i/count-labels-idx1-ubyte", 8, 1, {1}, 1},
    {"i/float-images-idx3-ubyte", 13, 3, {1, 1, 1}, 4},
    {"i/short-images-idx3-ubyte", 8, 3, {2, 2, 2}, 7},
    {"i/long-images-idx3-ubyte", 8, 3, {2, 2, 2}, 9},
    {"i/huge-images-idx3-ubyte", 8, 3, {4294967295u, 4294967295u, 4294967295u}, 9},
    {"i/flat-images-idx3-ubyte", 8, 2, {2, 2}, 4},
    {"i/four-images-idx3-ubyte", 8, 4, {1, 1, 1, 4}, 4},
    {"i/none-images-idx3-ubyte", 8, 3, {0, 2, 2}, 0},
    {"i/wide-images-idx3-ubyte", 8, 3, {1, 1, 70000}, 70000},
    {"i/deep-images-idx3-ubyte", 8, 3, {1, 1, 1}, 1},
    {"i/deep-labels-idx1-ubyte", 8, 2, {1, 1}, 1},
    {"i/tail-images-idx3-ubyte", 8, 3, {1, 1, 1}, 1},
    {"i/tail-labels-idx1-ubyte", 8, 1, {1}, 2},
};

static void make_idx(void) {
    static uint8_t bytes[1 << 17];
    const uint32_t dims[] = {2, 2, 3};
    for (size_t i = 0; i < COUNT_OF(idx); i++)
        put_bytes(idx[i].path, bytes,
                  idx_of(bytes, idx[i].type, idx[i].rank, idx[i].dims, idx[i].data));
    put_text("gz/x", "");
    put_gzip("gz/t10k-labels-idx1-ubyte.gz", bytes, idx_of(bytes, 8, 1, dims, 2));
    put_gzip("gz/good-labels-idx1-ubyte.gz", bytes, idx_of(bytes, 8, 1, dims, 2));
    put_gzip("gz/more-labels-idx1-ubyte.gz", bytes, idx_of(bytes, 8, 1, dims, 2));
    put_gzip("gz/t10k-images-idx3-ubyte.gz", bytes, idx_of(bytes, 8, 3, dims, 8));
    put_gzip("gz/more-images-idx3-ubyte.gz", bytes, idx_of(bytes, 8, 3, dims, 13));
    put_gzip("gz/good-images-idx3-ubyte.gz", bytes, idx_of(bytes, 8, 3, dims, 12));
    put_bytes("bad_idx/cut-images-idx3-ubyte", "\0\0\10\3\0\0", 6);
}

static void make_numbers(void) {
    static uint8_t bytes[4 * 3074];
    static const uint8_t pixels[2 * 2 * 2 * 3] = {1, 2, 3};
    static const int64_t labels[] = {1, 0};
    static const char *const names[] = {"cat", "dog"};
    static const float floats[] = {1, 2};
    static const size_t rgb[] = {2, 2, 2, 3}, grey[] = {2, 2, 6}, two[] = {2}, one[] = {1};
    static const struct {
        const char *path, *labels;
        enum dtype type, label_type;
        const size_t *dims, *label_dims;
        int rank;
        size_t names;
        const void *label_data;
    } files[] = {{"rgb.h5", "/labels", DT_U8, DT_I64, rgb, two, 4, 2, labels},
                 {"grey.h5", "/labels", DT_U8, DT_I16, grey, two, 3, 0, labels},
                 {"count.h5", "/labels", DT_U8, DT_I64, rgb, one, 4, 0, labels},
                 {"floats.h5", "/labels", DT_U8, DT_F32, rgb, two, 4, 0, floats},
                 {"signed.h5", "/labels", DT_I8, DT_I64, rgb, two, 4, 0, labels},
                 {"flat.h5", "/labels", DT_U8, DT_I64, two, two, 1, 0, labels},
                 {"none.h5", "/target", DT_U8, DT_I64, rgb, two, 4, 0, labels},
                 {"names.h5", "/labels", DT_U8, DT_I64, rgb, two, 4, 1, labels}};
    put_bytes("cifar/test_batch.bin", bytes, cifar_of(bytes, 1, 3, 10));
    put_bytes("cifar/data_batch_1.bin", bytes, cifar_of(bytes, 1, 1, 10));
    put_bytes("hundred/train.bin", bytes, cifar_of(bytes, 2, 2, 100));
    put_bytes("other.bin", bytes, cifar_of(bytes, 2, 2, 100));
    bytes[3074 + 1] = 100;
    put_bytes("bad/train.bin", bytes, 2 * 3074);
    put_bytes("bad/long.bin", bytes, 3073 + 5);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct h5 *file = NULL;
        assert_int_equal(h5_create(files[i].path, &file), ST_OK);
        assert_int_equal(
            h5_write(file, "/images", files[i].type, files[i].rank, files[i].dims, pixels), ST_OK);
        assert_int_equal(h5_write(file, files[i].labels, files[i].label_type, 1,
                                  files[i].label_dims, files[i].label_data),
                         ST_OK);
        if (files[i].names)
            assert_int_equal(h5_write_strings(file, "/label_names", names, files[i].names), ST_OK);
        assert_int_equal(h5_close(&file), ST_OK);
    }
}

static int make_files(void **state) {
    (void)state;
    if (!mkdtemp(home) || chdir(home) != 0) return 1;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        put_text(texts[i].path, texts[i].text);
    put_bytes("lists/zero.csv", "a.jpg\0,x\n", 9);
    make_archives();
    make_idx();
    make_numbers();
    return 0;
}

static int drop_files(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", home);
    return chdir("/") != 0 || system(command) != 0;
}

/* ---- good and bad ones ----------------------------------------------------------------------- */

static bool is_archive(const char *path) {
    return strstr(path, ".tar") || strstr(path, ".zip") || strcmp(path, "shards") == 0 ||
           strcmp(path, "cut") == 0;
}

static const struct {
    const char *path, *labels, *want; /* where libarchive speaks, it is "*" */
    const char *note;                 /* words in it; NULL: there is none */
} good[] = {
    {"classes", NULL,
     "folder: classes/10/z.jpg>10 classes/9/z.jpg>9 classes/cat/1.jpg>cat classes/cat/2.png>cat",
     NULL},
    {"classes/", NULL,
     "folder: classes/10/z.jpg>10 classes/9/z.jpg>9 classes/cat/1.jpg>cat classes/cat/2.png>cat",
     NULL},
    {"deep", NULL, "folder: deep/val/cat/more/1.jpg>val/cat/more deep/val/dog/1.jpg>val/dog", NULL},
    {"mixed", NULL, "folder: mixed/0.jpg>- mixed/cat/1.jpg>cat", "1 of 2 images lie in no folder"},
    {"one", NULL, "folder: one/cat/1.jpg>cat", "every image lies in one folder, 'cat'"},
    {"flat", "lists/plain.csv", "list: flat/a.jpg>cat flat/b c.jpg>dog flat/d,e.jpg>the \"cat\"",
     NULL},
    {"flat", "lists/head.csv", "list: flat/a.jpg>cat flat/b c.jpg>dog flat/d,e.jpg>-",
     "1 of 3 images have no label"},
    {"flat", "lists/tabs.tsv", "list: flat/a.jpg>big cat flat/b c.jpg>- flat/d,e.jpg>dog",
     "1 of 3"},
    {"flat", "lists/blanks.txt", "list: flat/a.jpg>4 flat/b c.jpg>3 flat/d,e.jpg>-", "1 of 3"},
    {"flat", "lists/gone.csv",
     "list: flat/a.jpg>cat flat/b c.jpg>- flat/d,e.jpg>- flat/no.jpg!is listed in the file of "
     "labels, but is not there lists/here.jpg>dog",
     "2 of 5"},
    {"flat", "lists/numbers.txt", "list: flat/a.jpg>7 flat/b c.jpg>8 flat/d,e.jpg>7",
     "numbers without names"},
    {"t/folders.tar", NULL,
     "archive: t/folders.tar/val/cat/1.jpg>val/cat t/folders.tar/val/cat/2.png>val/cat "
     "t/folders.tar/val/dog/3.jpg>val/dog",
     NULL},
    {"t/web.tar", NULL,
     "archive: t/web.tar/a.jpg>7 t/web.tar/b.png>dog t/web.tar/c.jpg>cat t/web.tar/d.jpg>- "
     "t/web.tar/e.jpg>n01",
     NULL},
    {"t/numbers.tar", NULL, "archive: t/numbers.tar/a.jpg>3 t/numbers.tar/b.jpg>-", NULL},
    {"t/both.tar", NULL, "archive: t/both.tar/cat/a.jpg>9 t/both.tar/cat/b.jpg>cat", NULL},
    {"t/pair.tar", NULL,
     "archive: t/pair.tar/a.jpg>1 t/pair.tar/b.jpg>2 t/pair.tar/c.left.jpg>3 "
     "t/pair.tar/c.right.jpg>3 "
     "t/pair.tar/d.jpg>- t/pair.tar/d.png>- t/pair.tar/e.jpg>-",
     NULL},
    {"t/twins.tar", NULL, "archive: t/twins.tar/c/a.jpg>c t/twins.tar/c/a.png>c", NULL},
    {"t/nine.tar", NULL, "archive: t/nine.tar/a.jpg>1 t/nine.tar/b.jpg>2", NULL},
    {"t/dots.tar", NULL,
     "archive: t/dots.tar/c/p.1.jpg>c t/dots.tar/c/p.2.jpg>c t/dots.tar/c/p.3.jpg>c "
     "t/dots.tar/c/p.4.jpg>c t/dots.tar/c/p.5.jpg>c t/dots.tar/c/p.6.jpg>c t/dots.tar/c/p.7.jpg>c "
     "t/dots.tar/c/p.8.jpg>c t/dots.tar/c/p.9.jpg>c",
     NULL},
    {"t/hidden.tar", NULL,
     "archive: t/hidden.tar/c/1.jpg>c t/hidden.tar/../up/3.jpg>../up t/hidden.tar/top/4.jpg>top",
     NULL},
    {"t/nothing.tar", NULL, "archive: t/nothing.tar!the archive holds no image", NULL},
    {"t/packed.tar.gz", NULL, "archive: t/packed.tar.gz/c/1.jpg>c t/packed.tar.gz/c/2.jpg>c", NULL},
    {"t/two.zip", NULL, "archive: t/two.zip/cat/1.jpg>cat t/two.zip/k\xc3\xa4se/2.jpg>k\xc3\xa4se",
     NULL},
    {"t/cut.zip", NULL, "archive: t/cut.zip/cat/1.jpg>cat t/cut.zip!*", NULL},
    {"t/badlabel.tar", NULL,
     "archive: t/badlabel.tar/a.jpg!its label a.json is no JSON t/badlabel.tar/b.jpg!its label "
     "b.cls is no line of text t/badlabel.tar/c.jpg>1",
     NULL},
    {"t/link.tar", NULL,
     "archive: t/link.tar/c/1.jpg!is a link inside the archive, which is read in one pass: pack "
     "the images themselves (tar -h --hard-dereference) t/link.tar/c/2.jpg>c",
     NULL},
    {"t/large.tar", NULL,
     "archive: t/large.tar/c/1.jpg!has 8589934591 bytes, at most 1 GiB are read "
     "t/large.tar!*",
     NULL},
    {"cut", NULL,
     "archive: cut/a.tar/c/1.jpg>c cut/a.tar!* cut/b.tar/c/1.jpg>c cut/b.tar/c/2.jpg>c", NULL},
    {"t/damaged.tar", NULL, "archive: t/damaged.tar/c/1.jpg>c t/damaged.tar!*", NULL},
    {"shards", NULL,
     "archive: shards/x-00.tar/cat/1.jpg>cat shards/x-01.tar/cat/2.jpg>cat "
     "shards/x-02.tar/dog/3.jpg>dog",
     NULL},
    {"shards/x-{01..02}.tar", NULL,
     "archive: shards/x-01.tar/cat/2.jpg>cat shards/x-02.tar/dog/3.jpg>dog", NULL},
    {"shards/x-0{2,0}.tar", NULL,
     "archive: shards/x-02.tar/dog/3.jpg>dog shards/x-00.tar/cat/1.jpg>cat", NULL},
    {"mnist", NULL, "idx: mnist/t10k-images-idx3-ubyte#0>0 mnist/t10k-images-idx3-ubyte#1>1",
     "train-images-idx3-ubyte is left out"},
    {"mnist/t10k-images-idx3-ubyte", NULL,
     "idx: mnist/t10k-images-idx3-ubyte#0>0 mnist/t10k-images-idx3-ubyte#1>1", NULL},
    {"dotted", NULL, "idx: dotted/test-images.idx3-ubyte#0>0", NULL},
    {"trained", NULL, "idx: trained/images-idx3-ubyte#0>0", "no test files"},
    {"i/named", "trained/labels-idx1-ubyte", "idx: i/named#0>0", NULL},
    {"gz/good-images-idx3-ubyte.gz", NULL,
     "idx: gz/good-images-idx3-ubyte.gz#0>0 gz/good-images-idx3-ubyte.gz#1>1", NULL},
    {"gz/t10k-images-idx3-ubyte.gz", NULL,
     "idx: gz/t10k-images-idx3-ubyte.gz#0>0 gz/t10k-images-idx3-ubyte.gz!ends early", NULL},
    {"gz/more-images-idx3-ubyte.gz", NULL,
     "idx: gz/more-images-idx3-ubyte.gz#0>0 gz/more-images-idx3-ubyte.gz#1>1 "
     "gz/more-images-idx3-ubyte.gz!goes on behind its last element",
     NULL},
    {"cifar", NULL,
     "cifar: cifar/test_batch.bin#0>plane cifar/test_batch.bin#1>car cifar/test_batch.bin#2>2",
     "training files beside the test file are left out"},
    {"hundred", NULL, "cifar: hundred/train.bin#0>0 hundred/train.bin#1>1", "no test file"},
    {"other.bin", NULL, "cifar: other.bin#0>0 other.bin#1>1", NULL},
    {"bad/train.bin", NULL,
     "cifar: bad/train.bin#0>0 bad/train.bin#1!its label is 100, CIFAR-100 has 100 classes", NULL},
    {"rgb.h5", NULL, "hdf5: rgb.h5#0>dog rgb.h5#1>cat", NULL},
    {"grey.h5", NULL, "hdf5: grey.h5#0>1 grey.h5#1>0", NULL},
    {"names.h5", NULL, "hdf5: names.h5#0!its label is 1, and label_names has 1 names.h5#1>cat",
     NULL},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const struct dataset_options options = {.labels = good[i].labels};
        struct dataset *dataset = NULL;
        char text[4096], identity[300];
        if (!HAVE_ARCHIVE && is_archive(good[i].path)) continue;
        if (dataset_open(good[i].path, &options, &dataset) != ST_OK)
            fail_msg("%s: %s", good[i].path, fail_message());
        snprintf(identity, sizeof identity, "%s", dataset_identity(dataset));
        tell(dataset, text, sizeof text);
        if (fnmatch(good[i].want, text, 0) != 0) fail_msg("%s, expected %s", text, good[i].want);
        assert_string_equal(dataset_identity(dataset), identity);
        if (!good[i].note && dataset_note(dataset))
            fail_msg("%s: a note: %s", good[i].path, dataset_note(dataset));
        if (good[i].note &&
            (!dataset_note(dataset) || !strstr(dataset_note(dataset), good[i].note)))
            fail_msg("%s: a note '%s', expected '%s'", good[i].path,
                     dataset_note(dataset) ? dataset_note(dataset) : "", good[i].note);
        dataset_close(dataset);
    }
}

static const struct {
    const char *path, *labels;
    enum status status;
    const char *words;
} bad[] = {
    {"gone", NULL, ST_IO, "gone: No such file"},
    {"bare", NULL, ST_FORMAT, "bare: the folder holds no image"},
    {"flat", NULL, ST_USAGE, "flat: the images lie flat in the folder"},
    {"notes.md", NULL, ST_FORMAT, "notes.md: is no dataset"},
    {"flat/a.jpg", NULL, ST_FORMAT, "flat/a.jpg: is no dataset"},
    {"flat", "lists/gone", ST_IO, "lists/gone: No such file"},
    {"flat", "lists/two.txt", ST_FORMAT, "has 2 numbers for 3 images"},
    {"flat", "lists/four.txt", ST_FORMAT, "has 4 numbers for 3 images"},
    {"flat", "lists/words.txt", ST_FORMAT, "line 1 is 'cat', expected a path and a label"},
    {"flat", "lists/twice.csv", ST_FORMAT, "line 2: './a.jpg' is listed a second time"},
    {"flat", "lists/three.csv", ST_FORMAT, "line 1 has 3 fields"},
    {"flat", "lists/short.csv", ST_FORMAT, "line 2 has 1 fields"},
    {"flat", "lists/quote.csv", ST_FORMAT, "line 2 has a quote that is not closed"},
    {"flat", "lists/behind.csv", ST_FORMAT, "line 1 has a quote"},
    {"flat", "lists/nolabel.csv", ST_FORMAT, "line 1 has no label"},
    {"flat", "lists/nopath.csv", ST_FORMAT, "line 1 has no path"},
    {"flat", "lists/head_only.csv", ST_FORMAT, "names no image"},
    {"flat", "lists/empty.csv", ST_FORMAT, "names no image"},
    {"flat", "lists/zero.csv", ST_FORMAT, "zero bytes"},
    {"t/web.tar", "lists/plain.csv", ST_USAGE, "t/web.tar: holds its own labels"},
    {"rgb.h5", "lists/plain.csv", ST_USAGE, "rgb.h5: holds its own labels"},
    {"other.bin", "lists/plain.csv", ST_USAGE, "other.bin: holds its own labels"},
    {"shards/x-{00..03}.tar", NULL, ST_IO, "shards/x-03.tar: No such file"},
    {"shards/x-{02..01}.tar", NULL, ST_USAGE, "runs from 2 down to 1"},
    {"shards/x-{00}.tar", NULL, ST_USAGE, "neither a range"},
    {"shards/x-{00..01.tar", NULL, ST_USAGE, "one pair of braces"},
    {"shards/{x,y}-{00..01}.tar", NULL, ST_USAGE, "one pair of braces"},
    {"many", NULL, ST_USAGE, "many: holds 2 sets of images"},
    {"trained/labels-idx1-ubyte", NULL, ST_USAGE, "holds labels"},
    {"i/alone-images-idx3-ubyte", NULL, ST_IO, "expected i/alone-labels-idx1-ubyte"},
    {"i/named", NULL, ST_USAGE, "expected --labels FILE"},
    {"i/named", "notes.md", ST_FORMAT, "notes.md: is no IDX file"},
    {"i/count-images-idx3-ubyte", NULL, ST_FORMAT, "holds 1 labels for the 2 images"},
    {"i/float-images-idx3-ubyte", NULL, ST_FORMAT, "is no dataset"},
    {"i/short-images-idx3-ubyte", NULL, ST_FORMAT, "has 23 bytes, expected 24"},
    {"i/long-images-idx3-ubyte", NULL, ST_FORMAT, "has 25 bytes, expected 24"},
    {"i/huge-images-idx3-ubyte", NULL, ST_FORMAT, "multiply beyond any memory"},
    {"i/flat-images-idx3-ubyte", NULL, ST_FORMAT, "has 2 dimensions"},
    {"i/four-images-idx3-ubyte", NULL, ST_FORMAT, "has 4 dimensions"},
    {"i/none-images-idx3-ubyte", NULL, ST_FORMAT, "holds 0 images"},
    {"i/wide-images-idx3-ubyte", NULL, ST_FORMAT, "of 70000 x 1"},
    {"i/deep-images-idx3-ubyte", NULL, ST_FORMAT, "has 2 dimensions, expected labels"},
    {"i/tail-images-idx3-ubyte", NULL, ST_FORMAT, "has 10 bytes, expected 9"},
    {"bad_idx", NULL, ST_FORMAT, "ends early"},
    {"bad/test_batch.bin", NULL, ST_FORMAT, "has 5 bytes, expected records of 3073"},
    {"bad/long.bin", NULL, ST_FORMAT, "is no dataset"},
    {"bad", NULL, ST_FORMAT, "has 5 bytes"},
    {"count.h5", NULL, ST_SHAPE, "/labels: is (1), expected (2)"},
    {"floats.h5", NULL, ST_SHAPE, "/labels: is fp32"},
    {"signed.h5", NULL, ST_SHAPE, "/images: is int8"},
    {"flat.h5", NULL, ST_SHAPE, "/images: is uint8 (2), expected"},
    {"none.h5", NULL, ST_SHAPE, "/labels: is missing"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const struct dataset_options options = {.labels = bad[i].labels};
        struct dataset *dataset = NULL;
        enum status st;
        if (!HAVE_ARCHIVE && is_archive(bad[i].path)) continue;
        st = dataset_open(bad[i].path, &options, &dataset);
        if (st == ST_OK) fail_msg("%s: accepted, expected '%s'", bad[i].path, bad[i].words);
        if (st != bad[i].status || !strstr(fail_message(), bad[i].words))
            fail_msg("%s: %s: '%s', expected %s: '%s'", bad[i].path, status_name(st),
                     fail_message(), status_name(bad[i].status), bad[i].words);
        assert_null(dataset);
    }
}

/* ---- pixels, bytes, copies ------------------------------------------------------------------- */

static const struct {
    const char *path;
    int width, height;
    size_t pixel; /* of the first image, in bytes of rgb */
    uint8_t rgb[3];
} pixels[] = {
    {"mnist/t10k-images-idx3-ubyte", 3, 2, 3 * 4, {4, 4, 4}},
    {"dotted/test-images.idx3-ubyte", 2, 1, 3, {3, 4, 5}},
    {"cifar/test_batch.bin", 32, 32, 3 * 1023, {0, 1, 2}},
    {"other.bin", 32, 32, 0, {0, 1, 2}},
    {"rgb.h5", 2, 2, 0, {1, 2, 3}},
    {"grey.h5", 6, 2, 3, {2, 2, 2}},
};

static void test_pixels(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pixels); i++) {
        struct dataset_item item = {0};
        struct dataset *dataset = NULL;
        assert_int_equal(dataset_open(pixels[i].path, NULL, &dataset), ST_OK);
        assert_true(dataset_next(dataset, &item));
        assert_int_equal(item.image.width, pixels[i].width);
        assert_int_equal(item.image.height, pixels[i].height);
        assert_memory_equal(item.image.rgb + pixels[i].pixel, pixels[i].rgb, 3);
        mem_free(item.path);
        image_release(&item.image);
        dataset_close(dataset);
    }
}

/* A copy elsewhere is the same dataset, another label is another. */
static void test_identity(void **state) {
    static const char *const same[][2] = {{"classes", "copy/classes"}, {"cifar", "copy/cifar"}};
    char first[300];
    (void)state;
    assert_int_equal(system("mkdir copy && cp -r classes cifar copy"), 0);
    for (int changed = 0; changed < 2; changed++) {
        for (size_t i = 0; i < COUNT_OF(same); i++) {
            struct dataset *dataset = NULL;
            assert_int_equal(dataset_open(same[i][0], NULL, &dataset), ST_OK);
            snprintf(first, sizeof first, "%s", dataset_identity(dataset));
            dataset_close(dataset);
            assert_int_equal(dataset_open(same[i][1], NULL, &dataset), ST_OK);
            assert_int_equal(strcmp(dataset_identity(dataset), first) != 0, changed);
            dataset_close(dataset);
        }
        if (!changed)
            assert_int_equal(system("mv copy/classes/cat copy/classes/dog && "
                                    "printf '\\3' | dd of=copy/cifar/test_batch.bin conv=notrunc "
                                    "2>/dev/null"),
                             0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_pixels),
        cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
