/* The option parser: what a command line becomes, and what is said when it is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/run.h"

#include <cmocka.h> /* last: it defines fail() */

/* A line is written with '|' between its arguments, so that blanks and empty ones are seen. */
enum { MOST_ARGS = 24 };

struct line {
    char text[512];
    char *argv[MOST_ARGS];
    int argc;
};

static void split(struct line *line, const char *text) {
    snprintf(line->text, sizeof line->text, "classify|%s", text);
    line->argc = 0;
    for (char *at = line->text; at && line->argc < MOST_ARGS;) {
        char *bar = strchr(at, '|');
        line->argv[line->argc++] = at;
        if (bar) *bar++ = 0;
        at = bar;
    }
}

static enum status scan(struct run_options *run, struct line *line, struct cli_args *args,
                        bool *help) {
    const struct cli_group groups[] = {run_model_group(run), run_image_group(run),
                                       run_row_group(run), run_talk_group(run)};
    const struct cli cli = {.command = "classify",
                            .synopsis = "[OPTION]... PATH...",
                            .about = "About.",
                            .groups = groups,
                            .group_count = COUNT_OF(groups),
                            .min_args = 1,
                            .max_args = 4,
                            .args_wanted = "an image"};
    return cli_scan(&cli, line->argc, line->argv, args, help);
}

/* What a line became, in words: the options that differ from the defaults, then the arguments. */
static void tell(const struct run_options *r, const struct cli_args *args, char *text,
                 size_t size) {
    const struct run_options d = run_defaults();
    size_t used = 0;
    text[0] = 0;
#define TELL(differs, ...)                                                                         \
    if (differs) used += (size_t)snprintf(text + used, size - used, __VA_ARGS__)
    TELL(strcmp(r->model, d.model), "model=%s ", r->model);
    TELL(strcmp(r->device, d.device), "device=%s ", r->device);
    TELL(r->precision != d.precision, "precision=%d ", r->precision);
    TELL(r->threads != d.threads, "threads=%d ", r->threads);
    TELL(r->batch != d.batch, "batch=%d ", r->batch);
    TELL(r->image_size.height, "size=%dx%d ", r->image_size.height, r->image_size.width);
    TELL(r->crop_pct != d.crop_pct, "crop_pct=%g ", r->crop_pct);
    TELL(r->crop_mode != d.crop_mode, "crop_mode=%s ",
         crop_mode_name((enum crop_mode)r->crop_mode));
    TELL(r->interpolation != d.interpolation, "filter=%s ",
         filter_name((enum filter)r->interpolation));
    TELL(r->mean.set, "mean=%g,%g,%g ", r->mean.value[0], r->mean.value[1], r->mean.value[2]);
    TELL(r->std.set, "std=%g,%g,%g ", r->std.value[0], r->std.value[1], r->std.value[2]);
    TELL(r->exif != d.exif, "exif=%d ", r->exif);
    TELL(r->alpha.composite, "alpha=%d,%d,%d ", r->alpha.background[0], r->alpha.background[1],
         r->alpha.background[2]);
    TELL(r->max_pixels != d.max_pixels, "max_pixels=%zu ", r->max_pixels);
    TELL(r->on_error != d.on_error, "on_error=%d ", r->on_error);
    TELL(r->topk != d.topk, "topk=%d ", r->topk);
    TELL(r->format != d.format, "format=%d ", r->format);
    TELL(r->output, "output=%s ", r->output);
    TELL(r->output_type != d.output_type, "type=%d ", r->output_type);
    TELL(r->quiet, "quiet ");
    TELL(r->verbose, "verbose ");
    TELL(r->no_progress, "no_progress ");
    for (int i = 0; i < args->count; i++)
        TELL(true, "<%s>", args->items[i]);
#undef TELL
}

static const struct {
    const char *line, *want;
} good[] = {
    {"a.jpg", "<a.jpg>"},
    {"-m|x.h5|a", "model=x.h5 <a>"},
    {"--model=x.h5|a", "model=x.h5 <a>"},
    {"a|--model|x.h5", "model=x.h5 <a>"}, /* options after arguments */
    {"--model=a=b|a", "model=a=b <a>"},   /* only the first '=' separates */
    {"-k5|a", "<a>"},                     /* the default again */
    {"-k7|a", "topk=7 <a>"},
    {"-k|7|a", "topk=7 <a>"},
    {"-k|0|a", "topk=0 <a>"},
    {"-qv|a", "quiet verbose <a>"},
    {"-qk3|a", "topk=3 quiet <a>"}, /* a flag, then an option with its value */
    {"-qk|3|a", "topk=3 quiet <a>"},
    {"-k3|-k4|a", "topk=4 <a>"}, /* the last one counts */
    {"--|-k|a", "<-k><a>"},
    {"a|--|--help", "<a><--help>"},
    {"-", "<->"},
    {"-m|-|a", "model=- <a>"}, /* a value may begin with a dash */
    {"-d|cpu|a", "device=cpu <a>"},
    {"--device|cuda:3|a", "device=cuda:3 <a>"},
    {"-p|bf16|a", "precision=1 <a>"},
    {"-t|2|-b|16|a", "threads=2 batch=16 <a>"},
    {"--image-size|384|a", "size=384x384 <a>"},
    {"--image-size=256x320|a", "size=256x320 <a>"},
    {"--crop-pct|0.9|a", "crop_pct=0.9 <a>"},
    {"--crop-mode|center|a", "crop_mode=center <a>"},
    {"--crop-mode|squash|a", "crop_mode=squash <a>"},
    {"--crop-mode|border|a", "crop_mode=border <a>"},
    {"--interpolation|nearest|a", "filter=nearest <a>"},
    {"--interpolation|box|a", "filter=box <a>"},
    {"--interpolation|bilinear|a", "filter=bilinear <a>"},
    {"--interpolation|hamming|a", "filter=hamming <a>"},
    {"--interpolation|bicubic|a", "filter=bicubic <a>"},
    {"--interpolation|lanczos|a", "filter=lanczos <a>"},
    {"--mean|0.5,0.25,1|a", "mean=0.5,0.25,1 <a>"},
    {"--mean|-1,0,1e-1|a", "mean=-1,0,0.1 <a>"},
    {"--std|0.5,0.5,0.5|a", "std=0.5,0.5,0.5 <a>"},
    {"--exif|ignore|a", "exif=0 <a>"},
    {"--alpha|#ff8000|a", "alpha=255,128,0 <a>"},
    {"--alpha|#FFFFFF|a", "alpha=255,255,255 <a>"},
    {"--alpha|drop|a", "<a>"},
    {"--max-pixels|1000000000000|a", "max_pixels=1000000000000 <a>"}, /* beyond 32 bits */
    {"--on-error|stop|a", "on_error=1 <a>"},
    {"-f|jsonl|-o|x y|a", "format=4 output=x y <a>"},
    {"--output-type|logit|a", "type=1 <a>"},
    {"--no-progress|a|b|c|d", "no_progress <a><b><c><d>"},
    {"a b\nc.png", "<a b\nc.png>"},
};

static const struct {
    const char *line, *want; /* a part of the sentence */
} bad[] = {
    {"--topk", "option --topk needs a value, N"},
    {"a|-k", "option -k, --topk needs a value, N"},
    {"--topk|five|a", "option --topk: got 'five', want a whole number from 0 to 1000000000"},
    {"-k5x|a", "option --topk: got '5x'"},
    {"-k|-1|a", "option --topk: got '-1'"},
    {"-k|1.5|a", "option --topk: got '1.5'"},
    {"-k| 5|a", "option --topk: got ' 5'"}, /* blanks are no number */
    {"-k||a", "option --topk: got an empty value, want N"},
    {"--model=|a", "option --model: got an empty value"},
    {"-k|99999999999999999999|a", "option --topk: got '99999999999999999999'"},
    {"--quiet=1|a", "option --quiet takes no value, got '1'"},
    {"--topj|5|a", "unknown option '--topj', did you mean '--topk'?"},
    {"--thread=5|a", "unknown option '--thread', did you mean '--threads'?"},
    {"--bacth|5|a", "unknown option '--bacth', did you mean '--batch'?"},
    {"--hepl", "unknown option '--hepl', did you mean '--help'?"},
    {"--xylophone|a", "unknown option '--xylophone'"},
    {"-z|a", "unknown option '-z'"},
    {"-qz|a", "unknown option '-z'"},
    {"-\xc3\xa9|a", "unknown option '-\xc3\xa9'"}, /* a letter of two bytes, whole */
    {"-d|gpu|a", "option --device: got 'gpu', want auto, cpu, cuda, cuda:N or cuda:N,N"},
    {"-d|cuda:|a", "option --device: got 'cuda:'"},
    {"-d|cuda:-1|a", "option --device: got 'cuda:-1'"},
    {"-d|cuda:x|a", "option --device: got 'cuda:x'"},
    {"-p|fp8|a", "option --precision: got 'fp8', want one of fp32, bf16, fp16, int8"},
    {"-t|0|a", "option --threads: got '0', want a whole number from 1 to"},
    {"-b|0|a", "option --batch: got '0'"},
    {"--image-size|224x|a", "option --image-size: got '224x', want N or HxW"},
    {"--image-size|x224|a", "option --image-size: got 'x224'"},
    {"--image-size|0|a", "option --image-size: got '0'"},
    {"--image-size|1x2x3|a", "option --image-size: got '1x2x3'"},
    {"--image-size|99999999999999999999999999|a", "option --image-size: got '9999"},
    {"--crop-pct|0|a", "option --crop-pct: got '0', want a number from 0.01 to 10"},
    {"--crop-pct|nan|a", "option --crop-pct: got 'nan'"},
    {"--crop-pct|inf|a", "option --crop-pct: got 'inf'"},
    {"--crop-pct|0x1|a", "option --crop-pct: got '0x1'"},
    {"--crop-mode|centre|a", "want one of center, squash, border"},
    {"--interpolation|cubic|a", "option --interpolation: got 'cubic', want one of nearest, box"},
    {"--mean|0.5|a", "option --mean: got '0.5', want R,G,B, three numbers from -10 to 10"},
    {"--mean|1,2,3,4|a", "option --mean: got '1,2,3,4'"},
    {"--mean|1,,3|a", "option --mean: got '1,,3'"},
    {"--mean|123.675,116.28,103.53|a", "option --mean: got '123.675"}, /* of 0..255 */
    {"--std|0,1,1|a", "option --std: got '0,1,1'"},                    /* would divide by 0 */
    {"--exif|yes|a", "option --exif: got 'yes', want one of ignore, apply"},
    {"--alpha|red|a", "option --alpha: got 'red', want drop or #RRGGBB"},
    {"--alpha|#ff|a", "option --alpha: got '#ff'"},
    {"--alpha|#gg0000|a", "option --alpha: got '#gg0000'"},
    {"--alpha|#ff00001|a", "option --alpha: got '#ff00001'"},
    {"--max-pixels|0|a", "option --max-pixels: got '0'"},
    {"--on-error|skip|a", "option --on-error: got 'skip', want one of continue, stop"},
    {"-f|xml|a", "option --format: got 'xml', want one of text, tsv, csv, json, jsonl"},
    {"--output-type|odds|a", "option --output-type: got 'odds', want one of prob, logit"},
    {"-q", "nothing to work on, want an image"},
    {"--", "nothing to work on"},
    {"a|b|c|d|e", "too many arguments, 'e' is one more than is taken"},
};

static void test_good_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct run_options run = run_defaults();
        struct line line;
        struct cli_args args;
        char told[1024];
        bool help;
        split(&line, good[i].line);
        if (scan(&run, &line, &args, &help) != ST_OK)
            fail_msg("'%s' was refused: %s", good[i].line, fail_message());
        tell(&run, &args, told, sizeof told);
        if (strcmp(told, good[i].want) != 0)
            fail_msg("'%s' became '%s', want '%s'", good[i].line, told, good[i].want);
        assert_false(help);
    }
}

static void test_bad_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct run_options run = run_defaults();
        struct line line;
        struct cli_args args;
        bool help;
        split(&line, bad[i].line);
        if (scan(&run, &line, &args, &help) != ST_USAGE)
            fail_msg("'%s' was not refused", bad[i].line);
        if (!strstr(fail_message(), bad[i].want))
            fail_msg("'%s' said '%s', want '%s'", bad[i].line, fail_message(), bad[i].want);
    }
}

static void test_help_asked(void **state) {
    static const char *const lines[] = {"--help", "-h", "-qh", "a|-h", "--help|--nonsense"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct run_options run = run_defaults();
        struct line line;
        struct cli_args args;
        bool help;
        split(&line, lines[i]);
        assert_int_equal(scan(&run, &line, &args, &help), ST_OK);
        assert_true(help);
    }
}

/* Help shows what the struct holds, not what a text once said. */
static void test_help_defaults(void **state) {
    static const struct {
        const char *set, *want;
    } rows[] = {
        {"a", "-k, --topk N"},
        {"a", "0 = every class [5]"},
        {"-k|9|a", "0 = every class [9]"},
        {"a", "[vit-cifar10]"},
        {"-m|other|a", "[other]"},
        {"a", "[auto]"},
        {"a", "[fp32 on cpu, fp16 on cuda]"},
        {"-p|int8|a", "[int8]"},
        {"a", "[8 on cpu, 64 on cuda]"},
        {"a", "[178956970]"},
        {"a", "[apply]"},
        {"a", "[drop]"},
        {"--alpha|#0a0b0c|a", "[#0a0b0c]"},
        {"--mean|0.1,0.2,0.3|a", "[0.1,0.2,0.3]"},
        {"--image-size|8x9|a", "[8x9]"},
        {"--crop-pct|0.5|a", "[0.5]"},
        {"a", "[continue]"},
        {"a", "[stdout]"},
        {"a", "Usage: vitrine classify [OPTION]... PATH...\n"},
        {"a", "-h, --help"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct run_options run = run_defaults();
        const struct cli_group groups[] = {run_model_group(&run), run_image_group(&run),
                                           run_row_group(&run), run_talk_group(&run)};
        const struct cli cli = {.command = "classify",
                                .synopsis = "[OPTION]... PATH...",
                                .about = "About.",
                                .groups = groups,
                                .group_count = COUNT_OF(groups)};
        struct line line;
        struct cli_args args;
        bool help;
        char *text;
        split(&line, rows[i].set);
        assert_int_equal(scan(&run, &line, &args, &help), ST_OK);
        text = cli_help(&cli);
        assert_non_null(text);
        if (!strstr(text, rows[i].want)) fail_msg("no '%s' in\n%s", rows[i].want, text);
        for (char *at = text; *at; at += strcspn(at, "\n") + 1)
            if (strcspn(at, "\n") > 100) fail_msg("a line of help is over 100 columns: %s", at);
        mem_free(text);
    }
}

static void test_nearest(void **state) {
    static const char *const names[] = {"classify", "features", "convert", "inspect"};
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"clasify", "classify"},
        {"class", "classify"},
        {"covnert", "convert"},
        {"feature", "features"},
        {"inspector", "inspect"},
        {"train", NULL},
        {"", NULL},
        {"x", NULL},
        {"a-word-that-is-far-longer-than-any-name-of-an-option-could-ever-be", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *got = cli_nearest(rows[i].word, names, COUNT_OF(names));
        if (!got != !rows[i].want || (got && strcmp(got, rows[i].want) != 0))
            fail_msg("'%s' is near '%s', want '%s'", rows[i].word, got ? got : "nothing",
                     rows[i].want ? rows[i].want : "nothing");
    }
}

static void test_list(void **state) {
    struct cli_list list = {0};
    const struct cli_option rows[] = {
        {.letter = 'D', .name = "define", .argument = "KEY=VALUE", .kind = CLI_LIST, .help = "x"}};
    const struct cli_group group = {"Own", rows, COUNT_OF(rows), &list};
    const struct cli cli = {.groups = &group, .group_count = 1, .max_args = -1};
    struct line line;
    struct cli_args args;
    bool help;
    (void)state;
    split(&line, "-Da=1|--define|b=2|x|--define=c=3");
    assert_int_equal(cli_scan(&cli, line.argc, line.argv, &args, &help), ST_OK);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.items[0], "a=1");
    assert_string_equal(list.items[1], "b=2");
    assert_string_equal(list.items[2], "c=3");
    assert_int_equal(args.count, 1);
    cli_list_release(&list);
    cli_list_release(&list);
}

/* run_options -> what the libraries take. */
static void test_run_options(void **state) {
    struct run_options run = run_defaults();
    struct image_options image;
    struct backend_options backend;
    struct line line;
    struct cli_args args;
    bool help;
    (void)state;
    assert_null(run_backend_options(&run).precision);
    assert_true(run_backend_options(&run).threads >= 1);
    split(&line, "-p|fp16|-t|3|-d|cpu|--exif|ignore|--alpha|#010203|--max-pixels|77|a");
    assert_int_equal(scan(&run, &line, &args, &help), ST_OK);
    backend = run_backend_options(&run);
    assert_string_equal(backend.precision, "fp16");
    assert_string_equal(backend.device, "cpu");
    assert_int_equal(backend.threads, 3);
    image = run_image_options(&run);
    assert_false(image.apply_exif);
    assert_true(image.composite);
    assert_int_equal(image.background[1], 2);
    assert_int_equal(image.max_pixels, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_lines),  cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_help_asked),  cmocka_unit_test(test_help_defaults),
        cmocka_unit_test(test_nearest),     cmocka_unit_test(test_list),
        cmocka_unit_test(test_run_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
