/*
 * cli: command lines as tables. A command lists its options once, as rows bound to the fields of
 * a struct; parsing, range checks, messages and --help all come from those rows, and the defaults
 * that help shows are read from the struct itself.
 *
 * What the commands that run a model share is in tools/run.h (run_options and its groups):
 *
 *     struct options { struct run_options run; bool flip; } o = {.run = run_defaults()};
 *     const struct cli_option own[] = {
 *         {.name = "flip", .kind = CLI_FLAG, .offset = offsetof(struct options, flip),
 *          .help = "..."},
 *     };
 *     const struct cli_group groups[] = {{"Options of flip", own, COUNT_OF(own), &o},
 *                                        run_model_group(&o.run), run_image_group(&o.run),
 *                                        run_row_group(&o.run), run_talk_group(&o.run)};
 *     const struct cli cli = {.command = "flip", .synopsis = "[OPTION]... PATH...", .about = "...",
 *                             .groups = groups, .group_count = COUNT_OF(groups),
 *                             .min_args = 1, .max_args = -1, .args_wanted = "an image"};
 *     struct cli_args args;
 *     int code = cli_parse(&cli, argc, argv, &args);
 *     if (code != CLI_GO) return code;
 */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include "kernels/base.h"

/* ---- options ------------------------------------------------------------------------------ */

enum cli_kind {
    CLI_FLAG,   /* bool, set to true; takes no value */
    CLI_INT,    /* int in [lo, hi] */
    CLI_COUNT,  /* size_t in [lo, hi] */
    CLI_DOUBLE, /* double in [lo, hi] */
    CLI_STRING, /* const char *, never empty; points into argv */
    CLI_CHOICE, /* int, an index into choices; -1 = unset */
    CLI_RGB,    /* struct cli_rgb: "R,G,B", each in [lo, hi] */
    CLI_SIZE,   /* struct cli_size: "N" or "HxW", each in [lo, hi] */
    CLI_LIST,   /* struct cli_list: may be given several times */
    CLI_CUSTOM  /* parsed and shown by the row's own functions */
};

struct cli_rgb {
    bool set;
    double value[3];
};

struct cli_size {
    int height, width; /* 0 = unset */
};

struct cli_list {
    const char **items; /* (count), point into argv */
    size_t count, capacity;
};

struct cli_option {
    char letter;          /* 0 = none */
    const char *name;     /* without the dashes; every option has one */
    const char *argument; /* what help calls the value, e.g. "N"; NULL for a flag */
    enum cli_kind kind;
    size_t offset;    /* of the field in the group's target */
    const char *help; /* may hold '\n'; continued lines are indented */
    /* Shown as the default while the field is unset: 0, NULL, a choice of -1. NULL: none shown. */
    const char *unset;
    double lo, hi;              /* CLI_INT, CLI_COUNT, CLI_DOUBLE, CLI_RGB, CLI_SIZE; inclusive */
    const char *const *choices; /* CLI_CHOICE; ends with NULL */
    /* CLI_CUSTOM. parse: ST_USAGE, the sentence only says what is wanted ("drop or #RRGGBB"). */
    enum status (*parse)(const char *value, void *field);
    void (*show)(const void *field, char *text, size_t size); /* the default; may be NULL */
};

struct cli_group {
    const char *title;
    const struct cli_option *rows;
    size_t count;
    void *target; /* the struct the offsets count from; holds the defaults */
};

struct cli {
    const char *command;  /* "classify" */
    const char *synopsis; /* "[OPTION]... PATH..." */
    const char *about;    /* for help, below the usage line */
    const char *examples; /* for help, at the end; may be NULL */
    const struct cli_group *groups;
    size_t group_count;
    int min_args, max_args;  /* how many arguments that are not options; max_args -1 = any */
    const char *args_wanted; /* "an image, a folder, - or @LIST": for the message when too few */
};

/* The arguments that are not options, in order; points into argv, whose order changes. */
struct cli_args {
    char **items;
    int count;
};

enum { CLI_GO = -1 };

/*
 * Parses argv[1..]; argv[0] is the command's name. CLI_GO: go on; else the exit status: 0 when help
 * was printed (stdout), 2 when the line was wrong (one sentence and "see 'vitrine COMMAND --help'"
 * on stderr). `--name value`, `--name=value`, `-k5`, `-k 5`, `-qv`; `--` ends the options; options
 * and arguments may mix; `-` alone is an argument.
 */
int cli_parse(const struct cli *cli, int argc, char **argv, struct cli_args *args);

/* The parser without the printing: ST_USAGE with the sentence, or ST_OK; *help: -h or --help. */
enum status cli_scan(const struct cli *cli, int argc, char **argv, struct cli_args *args,
                     bool *help) MUST_CHECK;
/* The help text into memory of its own (mem_free); NULL without memory. */
char *cli_help(const struct cli *cli);

void cli_list_release(struct cli_list *list);

/* The name most like `word` (a slip or two, or a beginning), or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

/* ---- talking to a person: stderr, one line, control bytes of file names made visible ------ */

void cli_say(const char *fmt, ...) PRINTF_LIKE(1, 2);

/*
 * "vitrine COMMAND: " + this thread's sentence; returns the exit status: 2 for ST_USAGE (with where
 * to read more), else 1.
 */
int cli_fail(const char *command, enum status st);

/* Seconds of a clock that never goes back. */
double cli_seconds(void);

/* ---- commands: argv[0] is the command's name; returns the exit status --------------------- */

int cmd_classify(int argc, char **argv);
int cmd_evaluate(int argc, char **argv);
int cmd_features(int argc, char **argv);
int cmd_attention(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
