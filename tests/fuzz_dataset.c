/*
 * fuzz_dataset: any bytes as a dataset's file: IDX images, their labels, CIFAR, tar, or a list of
 * labels for a folder. They must end in items and reasons, or in a sentence.
 *
 * LLVMFuzzerTestOneInput is libFuzzer's entry; the first byte says which file the others are. With
 * -DFUZZ_MAIN, main() changes files of its own, round after round, each from its own seed
 * ($FUZZ_ROUNDS of them, 4000; $FUZZ_FIRST, 0).
 */
#include "tests/fuzz_containers.h"

#include <unistd.h>

#include "datasets/dataset.h"
#include "tests/dataset_files.h"

enum { IDX, LABELS, CIFAR, TAR, LIST, KINDS };

static char home[] = "/tmp/vitrine-fuzz-XXXXXX";

/* Where the bytes go, and what is opened with which labels. */
static const struct {
    const char *file, *path, *labels;
} places[KINDS] = {
    [IDX] = {"images-idx3-ubyte", "images-idx3-ubyte", "good-labels"},
    [LABELS] = {"labels", "good-images", "labels"},
    [CIFAR] = {"test_batch.bin", "test_batch.bin", NULL},
    [TAR] = {"a.tar", "a.tar", NULL},
    [LIST] = {"list", "images", "list"},
};

static void leave(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", home);
    if (chdir("/") != 0 || system(command) != 0) fprintf(stderr, "%s stays\n", home);
}

/* A folder to work in, and the good half of what comes in two files. */
static void settle(void) {
    static const uint32_t dims[] = {2, 2, 3};
    static uint8_t bytes[64];
    static bool settled;
    if (settled) return;
    settled = true;
    if (!mkdtemp(home) || chdir(home) != 0 || atexit(leave) != 0) abort();
    put_bytes("good-images", bytes, idx_of(bytes, 8, 3, dims, 12));
    put_bytes("good-labels", bytes, idx_of(bytes, 8, 1, dims, 2));
    put_text("images/a.jpg", "x");
    put_text("images/b c.jpg", "x");
}

static void check_item(const struct dataset *dataset, struct dataset_item *item) {
    demand(item->path != NULL, "an item without a name");
    demand(item->error ? item->error[0] != 0 : true, "a fault without words");
    demand(!item->error || (!item->bytes && !item->image.rgb), "an image with a fault");
    demand(item->target < 0 || (size_t)item->target < dataset_class_count(dataset),
           "a class that is none");
    mem_free(item->path);
    mem_free(item->error);
    mem_free(item->bytes);
    image_release(&item->image);
    *item = (struct dataset_item){0};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dataset_item item = {0};
    struct dataset *dataset = NULL;
    struct dataset_options options;
    if (size < 1) return 0;
    settle();
    const size_t kind = data[0] % KINDS;
    options.labels = places[kind].labels;
    put_bytes(places[kind].file, data + 1, size - 1);
    if (dataset_open(places[kind].path, &options, &dataset) != ST_OK) {
        demand(fail_message()[0], "a refusal without a sentence");
        return 0;
    }
    demand(dataset_identity(dataset)[0], "a dataset without identity");
    for (size_t items = 0; dataset_next(dataset, &item); items++) {
        check_item(dataset, &item);
        demand(items < 1 << 20, "items without end");
    }
    dataset_close(dataset);
    return 0;
}

#ifdef FUZZ_MAIN
#define LARGEST 65536

static const char *const words[] = {
    "a.jpg,cat\n", "\"b c.jpg\"", "\n",      ",",         "\t",          "path,label\n", "7\n",
    "\"\"",        "../",         ".cls",    ".json",     "{\"label\":", "a.jpg=x",      "/",
    "\0\0\10\3",   "77777777777", "ustar  ", "__MACOSX/", "c/1.jpg",     "\xef\xbb\xbf", "x 1"};

/* A good file of a kind; its size. */
static size_t build(int kind, uint8_t *out) {
    static const uint32_t dims[] = {2, 2, 3};
    static const char list[] = "path,label\r\na.jpg,cat\n\"b c.jpg\",\"d \"\"e\"\"\"\nno.jpg,dog\n";
    static struct tar tar;
    switch (kind) {
    case IDX: return idx_of(out, 8, 3, dims, 12);
    case LABELS: return idx_of(out, 8, 1, dims, 2);
    case CIFAR: return cifar_of(out, 1, 3, 10);
    case TAR:
        tar_of(&tar, "a.jpg=x a.cls=7 b.json={\"label\":\"dog\"} b.png=x c/d.jpg=x c/d.txt=e");
        memcpy(out, tar.bytes, tar.size);
        return tar.size;
    default: memcpy(out, list, sizeof list - 1); return sizeof list - 1;
    }
}

/* Changes of a tar's headers count only where their checksums agree. */
static void seal(uint8_t *bytes, size_t size, uint64_t *state) {
    for (size_t at = 0; at + 512 <= size; at += 512)
        if (memcmp(bytes + at + 257, "ustar", 5) == 0 && next(state) % 8) tar_seal(bytes + at);
}

int main(void) {
    static uint8_t bytes[LARGEST];
    const long first = number("FUZZ_FIRST", 0), rounds = number("FUZZ_ROUNDS", 4000);
    for (long round = first; round < first + rounds; round++) {
        uint64_t state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        const int kind = (int)(round % KINDS);
        size_t size = build(kind, bytes + 1);
        bytes[0] = (uint8_t)kind;
        for (uint64_t n = next(&state) % 6; n > 0; n--)
            size = mutate(bytes + 1, size, words, COUNT_OF(words), &state);
        if (kind == TAR) seal(bytes + 1, size, &state);
        LLVMFuzzerTestOneInput(bytes, size + 1);
    }
    printf("%ld rounds\n", rounds);
    return 0;
}
#endif
