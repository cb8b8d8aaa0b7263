/*
 * fuzz_h5: any bytes as a model file. Everything that weights/ reads of one must end in a value
 * or in a sentence, within bounds of memory.
 *
 * LLVMFuzzerTestOneInput is libFuzzer's entry. With -DFUZZ_MAIN, main() changes known files, round
 * after round, each from its own seed ($FUZZ_ROUNDS of them, 2000; $FUZZ_FIRST, 0), in a child
 * process: HDF5 1.10 itself reads beyond its buffers, crashes and loops on some damaged files, in
 * functions that no check of ours comes before. A child that dies there is counted and goes on
 * with the next round; one that dies in our code, or asks for too much memory, fails the run.
 */
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weights/config.h"
#include "weights/keras.h"
#include "weights/params.h"

/* Elements of one tensor that are read, the bound of memory: 1 MiB of fp32. */
#define MAX_ELEMENTS 262144

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Passes a status on; a refusal has a sentence, and is never that our own request was too large. */
static bool good(enum status st) {
    if (st == ST_OK) return true;
    if (fail_message()[0] && st != ST_NOMEM && st != ST_USAGE) return false;
    fprintf(stderr, "fuzz_h5: %s: '%s'\n", status_name(st), fail_message());
    _exit(2);
}

static void read_words(struct h5 *file) {
    struct model_info info;
    struct vit_config config = {0};
    struct swin_config swin;
    struct preprocess_spec spec;
    struct selftest test;
    char **ids, **names;
    size_t count;
    if (good(model_info_read(file, &info))) model_info_release(&info);
    if (!good(vit_config_read(file, &config))) config.classes = 10;
    if (good(swin_config_read(file, &swin))) config.classes = swin.classes;
    if (!good(preprocess_spec_read(file, &spec))) spec.height = 0;
    if (good(labels_group_read(file, config.classes, &ids, &names, &count))) {
        h5_free_names(ids, count);
        h5_free_names(names, count);
    }
    if (good(selftest_read(file, &test))) selftest_release(&test);
}

/* Every tensor by its own shape, as a loader whose config fits would. */
static void read_parameters(struct h5 *file) {
    static float values[MAX_ELEMENTS];
    struct params params;
    if (!good(params_open(&params, file))) return;
    for (size_t i = 0; i < params.count; i++) {
        const struct h5_dataset *dataset = &params.datasets[i];
        int dims[TENSOR_MAX_RANK];
        size_t elements = 1;
        bool fits = true;
        for (int k = 0; k < dataset->rank && fits; k++) {
            fits = dataset->dims[k] <= MAX_ELEMENTS;
            elements = fits ? elements * dataset->dims[k] : 0;
            fits = fits && elements <= MAX_ELEMENTS;
            dims[k] = (int)dataset->dims[k];
        }
        if (fits) params_get(&params, values, dims, dataset->rank, dataset->name);
    }
    (void)good(params_close(&params));
}

/* The root's groups and strings that no model has, for the readers that models do not reach. */
static void read_rest(struct h5 *file) {
    static const char *const lists[] = {"/p/strings", "/p/strings_fixed", "/p/strings_gzip", "/d"};
    static const char *const groups[] = {"/", "/p", "/g", "/golden"};
    struct h5_dataset *datasets;
    char **names;
    size_t count;
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        if (good(h5_read_strings(file, lists[i], 1000, &names, &count)))
            h5_free_names(names, count);
    }
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        if (good(h5_list(file, groups[i], &datasets, &count))) h5_free_datasets(datasets, count);
        if (!good(h5_attribute_names(file, groups[i], &names, &count))) continue;
        for (size_t k = 0; k < count; k++) {
            char *text;
            double real;
            if (good(h5_get_string(file, groups[i], names[k], &text)))
                mem_free(text);
            else
                (void)good(h5_get_double(file, groups[i], names[k], -1e9, 1e9, &real));
        }
        h5_free_names(names, count);
    }
}

/* As a file of Keras: every byte of every tensor. */
static void read_keras(const uint8_t *data, size_t size) {
    static char path[] = "fuzz";
    struct checkpoint c = {.weights_path = path, .map = (void *)(uintptr_t)data, .map_size = size};
    unsigned sum = 0;
    if (good(keras_h5.parse(&c))) {
        for (size_t i = 0; i < c.count; i++) {
            for (size_t b = 0; b < c.tensors[i].bytes; b++)
                sum += c.tensors[i].data[b];
        }
    }
    (void)(volatile unsigned){sum};
    c.map = NULL;
    c.weights_path = NULL;
    checkpoint_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct h5 *file;
    read_keras(data, size);
    if (!good(h5_open_memory(data, size, "fuzz", &file))) return 0;
    read_words(file);
    read_parameters(file);
    read_rest(file);
    (void)good(h5_close(&file));
    return 0;
}

#ifdef FUZZ_MAIN

enum { DIED_IN_HDF5 = 77, DIED_BY_SIGNAL = 78, SECONDS = 20, MOST_BYTES = 512 << 20 };

void __asan_on_error(void); /* the address sanitizer calls it before it reports */

/*
 * Whose function is innermost: the first frames are this program's handler, then the C library's or
 * the sanitizer's; what comes after them is HDF5's or ours. (A sanitizer puts its own before all.)
 */
static bool in_hdf5(void) {
    void *frames[64];
    int count = backtrace(frames, 64), i = 0;
    char **names = backtrace_symbols(frames, count);
    bool found = false;
    if (!names) return false;
    while (i < count && !strstr(names[i], "fuzz_h5"))
        i++;
    while (i < count && strstr(names[i], "fuzz_h5"))
        i++;
    while (i < count && !strstr(names[i], "fuzz_h5") && !strstr(names[i], "libhdf5"))
        i++;
    found = i < count && strstr(names[i], "libhdf5");
    free(names);
    return found;
}

void __asan_on_error(void) {
    if (in_hdf5()) _exit(DIED_IN_HDF5);
}

static void on_signal(int number) {
    /* The C library aborts where it finds its heap overwritten: by HDF5, as the sanitizer shows. */
    _exit(number == SIGABRT || in_hdf5() ? DIED_IN_HDF5 : DIED_BY_SIGNAL);
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/*
 * One to four changes: a bit, a byte, a number of a size field, a copied or moved piece; or a
 * cut.
 */
static size_t mutate(uint8_t *bytes, size_t size, uint64_t *state) {
    static const uint64_t numbers[] = {0,          1,          0xff,       0xffff,    0x7fffffff,
                                       0xffffffff, 1ull << 40, 1ull << 63, UINT64_MAX};
    for (uint64_t left = 1 + next_random(state) % 4; left > 0 && size > 16; left--) {
        size_t at = next_random(state) % (size - 8), from = next_random(state) % (size - 8);
        size_t length = 1 + next_random(state) % 8;
        uint64_t number = numbers[next_random(state) % COUNT_OF(numbers)];
        switch (next_random(state) % 8) {
        case 0:
        case 1: bytes[at] ^= (uint8_t)(1 << next_random(state) % 8); break;
        case 2:
        case 3: bytes[at] = (uint8_t)next_random(state); break;
        case 4: memcpy(bytes + at, &number, length); break;
        case 5: memcpy(bytes + at / 8 * 8, &number, 8); break;
        case 6: memmove(bytes + at, bytes + from, length); break;
        default:
            if (next_random(state) % 8 == 0) size = at;
        }
    }
    return size;
}

static const char *const corpus[] = {
    "tests/ref/hostile/good_earliest.h5",
    "tests/ref/hostile/good_v110.h5",
    "tests/ref/hostile/attributes.h5",
    "tests/ref/hostile/shapes.h5",
    "tests/ref/hostile/string_bomb.h5",
    "tests/ref/hostile/links.h5",
    "tests/ref/hostile/filter_lzf.h5",
    "tests/ref/hostile/virtual.h5",
    "tests/ref/vit_token.h5",
    "tests/ref/swin_v2_small.h5",
    "tests/ref/keras/tf_model.h5",
    "tests/ref/keras/vit_keras.h5",
    "tests/ref/keras/hub_classifier.weights.h5",
};

static int run_round(long round) {
    uint64_t state = (uint64_t)round;
    uint8_t *bytes;
    size_t size;
    if (file_read(corpus[(size_t)round % COUNT_OF(corpus)], 1 << 24, &bytes, &size) != ST_OK) {
        fprintf(stderr, "fuzz_h5: %s\n", fail_message());
        return 1;
    }
    alarm(SECONDS);
    LLVMFuzzerTestOneInput(bytes, mutate(bytes, size, &state));
    mem_free(bytes);
    return 0;
}

/* The child: rounds from `first` on, each announced on the pipe. */
static void run_rounds(long first, long end, int announce) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        signal(signals[i], on_signal);
#ifndef __SANITIZE_ADDRESS__
    if (setrlimit(RLIMIT_AS, &(struct rlimit){MOST_BYTES, MOST_BYTES}) != 0) _exit(1);
#endif
    for (long round = first; round < end; round++) {
        if (write(announce, &round, sizeof round) != sizeof round || run_round(round) != 0)
            _exit(1);
    }
    _exit(0);
}

static long number_from(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    long number;
    return text && parse_long(text, 0, 1000000000, &number) ? number : otherwise;
}

int main(void) {
    long first = number_from("FUZZ_FIRST", 0), end = first + number_from("FUZZ_ROUNDS", 2000);
    long round = first, deaths = 0;
    while (round < end) {
        int ends[2], status = 0;
        long last = round;
        pid_t child;
        if (pipe(ends) != 0 || (child = fork()) < 0) return 1;
        if (child == 0) run_rounds(round, end, ends[1]);
        close(ends[1]);
        while (read(ends[0], &last, sizeof last) == sizeof last)
            round = last + 1;
        close(ends[0]);
        if (waitpid(child, &status, 0) != child) return 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != DIED_IN_HDF5) {
            printf("round %ld failed (status %d): FUZZ_FIRST=%ld FUZZ_ROUNDS=1\n", last, status,
                   last);
            return 1;
        }
        deaths++;
    }
    printf("%ld rounds; HDF5 itself died in %ld\n", end - first, deaths);
    return 0;
}
#endif
