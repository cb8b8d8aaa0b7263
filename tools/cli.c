/*
 * cli: see cli.h. argv -> scan (long, short cluster, argument) -> take (one option's value into its
 * field) -> the struct of options; help is the same rows written out.
 */
#include "tools/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HELP_COLUMN = 29, HELP_WIDTH = 100, LONGEST_NAME = 48 };

/* ---- values --------------------------------------------------------------------------------- */

/* The sentence of every bad value: which option, what it got, what it wants. */
static enum status bad(const struct cli_option *row, const char *value, const char *want) {
    return fail(ST_USAGE, "option --%s: got '%s', want %s", row->name, value, want);
}

static enum status bad_range(const struct cli_option *row, const char *value, const char *what) {
    char want[128];
    snprintf(want, sizeof want, "%s from %.15g to %.15g", what, row->lo, row->hi);
    return bad(row, value, want);
}

static enum status take_whole(const struct cli_option *row, const char *value, long *out) {
    if (parse_long(value, (long)row->lo, (long)row->hi, out)) return ST_OK;
    return bad_range(row, value, "a whole number");
}

static enum status take_choice(const struct cli_option *row, const char *value, int *field) {
    char want[256] = "one of";
    for (int i = 0; row->choices[i]; i++) {
        size_t used = strlen(want);
        if (strcmp(value, row->choices[i]) == 0) {
            *field = i;
            return ST_OK;
        }
        snprintf(want + used, sizeof want - used, "%s %s", i ? "," : "", row->choices[i]);
    }
    return bad(row, value, want);
}

static enum status take_rgb(const struct cli_option *row, const char *value,
                            struct cli_rgb *field) {
    struct cli_rgb rgb = {.set = true};
    const char *rest = value;
    for (int i = 0; i < 3; i++) {
        char number[32];
        size_t length = strcspn(rest, ",");
        if (length >= sizeof number || (rest[length] == ',') != (i < 2))
            return bad_range(row, value, "R,G,B, three numbers");
        memcpy(number, rest, length);
        number[length] = 0;
        if (!parse_double(number, row->lo, row->hi, &rgb.value[i]))
            return bad_range(row, value, "R,G,B, three numbers");
        rest += length + 1;
    }
    *field = rgb;
    return ST_OK;
}

static enum status take_size(const struct cli_option *row, const char *value,
                             struct cli_size *field) {
    char first[16];
    size_t length = strcspn(value, "x");
    long height, width;
    bool both = value[length] == 'x';
    if (length < sizeof first) {
        memcpy(first, value, length);
        first[length] = 0;
        if (parse_long(first, (long)row->lo, (long)row->hi, &height) &&
            parse_long(both ? value + length + 1 : first, (long)row->lo, (long)row->hi, &width)) {
            *field = (struct cli_size){.height = (int)height, .width = (int)width};
            return ST_OK;
        }
    }
    return bad_range(row, value, "N or HxW, whole numbers");
}

static enum status take_list(struct cli_list *list, const char *value) {
    void *items = (void *)list->items;
    enum status st = mem_grow(&items, &list->capacity, list->count + 1, sizeof *list->items);
    list->items = items;
    if (st == ST_OK) list->items[list->count++] = value;
    return st;
}

void cli_list_release(struct cli_list *list) {
    mem_free((void *)list->items);
    memset(list, 0, sizeof *list);
}

/* One option's value into its field. */
static enum status take(const struct cli_group *group, const struct cli_option *row,
                        const char *value) {
    void *field = (char *)group->target + row->offset;
    long whole;
    if (row->kind != CLI_FLAG && !value[0])
        return fail(ST_USAGE, "option --%s: got an empty value, want %s", row->name, row->argument);
    switch (row->kind) {
    case CLI_FLAG: *(bool *)field = true; break;
    case CLI_INT:
        TRY(take_whole(row, value, &whole));
        *(int *)field = (int)whole;
        break;
    case CLI_COUNT:
        TRY(take_whole(row, value, &whole));
        *(size_t *)field = (size_t)whole;
        break;
    case CLI_DOUBLE:
        if (!parse_double(value, row->lo, row->hi, field)) return bad_range(row, value, "a number");
        break;
    case CLI_STRING: *(const char **)field = value; break;
    case CLI_CHOICE: return take_choice(row, value, field);
    case CLI_RGB: return take_rgb(row, value, field);
    case CLI_SIZE: return take_size(row, value, field);
    case CLI_LIST: return take_list(field, value);
    case CLI_CUSTOM:
        if (row->parse(value, field) != ST_OK) {
            char want[256];
            snprintf(want, sizeof want, "%s", fail_message());
            return bad(row, value, want);
        }
        break;
    }
    return ST_OK;
}

/* ---- which option --------------------------------------------------------------------------- */

static const struct cli_option *find(const struct cli *cli, const char *name, size_t length,
                                     char letter, const struct cli_group **group) {
    for (size_t g = 0; g < cli->group_count; g++) {
        for (size_t r = 0; r < cli->groups[g].count; r++) {
            const struct cli_option *row = &cli->groups[g].rows[r];
            *group = &cli->groups[g];
            if (name && strlen(row->name) == length && memcmp(row->name, name, length) == 0)
                return row;
            if (letter && row->letter == letter) return row;
        }
    }
    return NULL;
}

/* Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][LONGEST_NAME + 1], la = strlen(a), lb = strlen(b);
    if (la > LONGEST_NAME || lb > LONGEST_NAME) return LONGEST_NAME;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[la % 3][lb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count) {
    size_t length = strlen(word), limit = length < 3 ? 1 : (length + 2) / 3, best = limit + 1;
    const char *nearest = NULL;
    if (length == 0) return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, names[i]);
        if (length > 1 && d > 1 && strncmp(word, names[i], length) == 0) d = 1;
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

static enum status unknown(const struct cli *cli, const char *name, size_t length) {
    const char *names[128], *nearest;
    char word[LONGEST_NAME + 1];
    size_t count = 0;
    for (size_t g = 0; g < cli->group_count; g++)
        for (size_t r = 0; r < cli->groups[g].count && count < COUNT_OF(names) - 1; r++)
            names[count++] = cli->groups[g].rows[r].name;
    names[count++] = "help";
    snprintf(word, sizeof word, "%.*s", (int)(length < LONGEST_NAME ? length : LONGEST_NAME), name);
    nearest = cli_nearest(word, names, count);
    if (nearest)
        return fail(ST_USAGE, "unknown option '--%s', did you mean '--%s'?", word, nearest);
    return fail(ST_USAGE, "unknown option '--%s'", word);
}

/* ---- the scan ------------------------------------------------------------------------------- */

/* "--name", "--name=value", or "--name" and *next; *used: *next was taken. */
static enum status scan_long(const struct cli *cli, const char *text, const char *next, bool *used,
                             bool *help) {
    const struct cli_group *group;
    size_t length = strcspn(text, "=");
    const char *inside = text[length] == '=' ? text + length + 1 : NULL;
    const struct cli_option *row = find(cli, text, length, 0, &group);
    if (!row && strcmp(text, "help") == 0) {
        *help = true;
        return ST_OK;
    }
    if (!row) return unknown(cli, text, length);
    if (row->kind == CLI_FLAG) {
        if (inside)
            return fail(ST_USAGE, "option --%s takes no value, got '%s'", row->name, inside);
        return take(group, row, "");
    }
    if (inside) return take(group, row, inside);
    if (!next) return fail(ST_USAGE, "option --%s needs a value, %s", row->name, row->argument);
    *used = true;
    return take(group, row, next);
}

/* "qvk5": flags, then at most one option with a value, which is the rest or *next. */
static enum status scan_short(const struct cli *cli, const char *text, const char *next, bool *used,
                              bool *help) {
    for (; *text; text++) {
        const struct cli_group *group;
        const struct cli_option *row = find(cli, NULL, 0, *text, &group);
        if (!row && *text == 'h') {
            *help = true;
            return ST_OK;
        }
        if (!row) {
            /* A whole UTF-8 character, should it be one: half of it would not print. */
            int bytes = 1;
            while (((unsigned char)text[bytes] & 0xc0) == 0x80)
                bytes++;
            return fail(ST_USAGE, "unknown option '-%.*s'", bytes, text);
        }
        if (row->kind == CLI_FLAG) {
            TRY(take(group, row, ""));
            continue;
        }
        if (text[1]) return take(group, row, text + 1);
        if (!next)
            return fail(ST_USAGE, "option -%c, --%s needs a value, %s", row->letter, row->name,
                        row->argument);
        *used = true;
        return take(group, row, next);
    }
    return ST_OK;
}

enum status cli_scan(const struct cli *cli, int argc, char **argv, struct cli_args *args,
                     bool *help) {
    bool options_ended = false;
    *args = (struct cli_args){.items = argv + 1};
    *help = false;
    for (int i = 1; i < argc; i++) {
        char *text = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used = false;
        if (options_ended || text[0] != '-' || !text[1]) {
            args->items[args->count++] = text; /* never ahead of i */
            continue;
        }
        if (strcmp(text, "--") == 0) {
            options_ended = true;
            continue;
        }
        if (text[1] == '-')
            TRY(scan_long(cli, text + 2, next, &used, help));
        else
            TRY(scan_short(cli, text + 1, next, &used, help));
        if (*help) return ST_OK;
        i += used;
    }
    if (args->count < cli->min_args)
        return fail(ST_USAGE, "nothing to work on, want %s", cli->args_wanted);
    if (cli->max_args >= 0 && args->count > cli->max_args)
        return fail(ST_USAGE, "too many arguments, '%s' is one more than is taken",
                    args->items[cli->max_args]);
    return ST_OK;
}

int cli_parse(const struct cli *cli, int argc, char **argv, struct cli_args *args) {
    bool help;
    enum status st = cli_scan(cli, argc, argv, args, &help);
    char *text;
    int written;
    if (st != ST_OK) return cli_fail(cli->command, st);
    if (!help) return CLI_GO;
    text = cli_help(cli);
    if (!text) return cli_fail(cli->command, ST_NOMEM);
    written = fputs(text, stdout);
    mem_free(text);
    if (written >= 0 && fflush(stdout) == 0) return 0;
    return cli_fail(cli->command, fail(ST_IO, "help could not be written to stdout"));
}

/* ---- help ----------------------------------------------------------------------------------- */

struct text {
    void *bytes;
    size_t used, capacity;
    bool failed;
};

static void add(struct text *text, const char *piece, size_t length) {
    if (text->failed || mem_grow(&text->bytes, &text->capacity, text->used + length + 1, 1)) {
        text->failed = true;
        return;
    }
    memcpy((char *)text->bytes + text->used, piece, length);
    text->used += length;
    ((char *)text->bytes)[text->used] = 0;
}

static void add_text(struct text *text, const char *piece) {
    add(text, piece, strlen(piece));
}

static void add_line(struct text *text, const char *piece) {
    add_text(text, piece);
    add_text(text, "\n");
}

/* The default of a row as its field holds it now; "" when there is none to show. */
static void show_default(const struct cli_group *group, const struct cli_option *row, char *text,
                         size_t size) {
    const void *field = (const char *)group->target + row->offset;
    const char *unset = row->unset ? row->unset : "";
    text[0] = 0;
    switch (row->kind) {
    case CLI_FLAG:
    case CLI_LIST: snprintf(text, size, "%s", unset); break;
    case CLI_INT:
        if (*(const int *)field || !row->unset) snprintf(text, size, "%d", *(const int *)field);
        break;
    case CLI_COUNT:
        if (*(const size_t *)field || !row->unset)
            snprintf(text, size, "%zu", *(const size_t *)field);
        break;
    case CLI_DOUBLE:
        if (*(const double *)field != 0 || !row->unset)
            snprintf(text, size, "%.6g", *(const double *)field);
        break;
    case CLI_STRING:
        if (*(char *const *)field) snprintf(text, size, "%s", *(char *const *)field);
        break;
    case CLI_CHOICE:
        if (*(const int *)field >= 0) snprintf(text, size, "%s", row->choices[*(const int *)field]);
        break;
    case CLI_RGB: {
        const struct cli_rgb *rgb = field;
        if (rgb->set) snprintf(text, size, "%g,%g,%g", rgb->value[0], rgb->value[1], rgb->value[2]);
        break;
    }
    case CLI_SIZE: {
        const struct cli_size *side = field;
        if (side->height) snprintf(text, size, "%dx%d", side->height, side->width);
        break;
    }
    case CLI_CUSTOM:
        if (row->show) row->show(field, text, size);
        break;
    }
    if (!text[0]) snprintf(text, size, "%s", unset);
}

static void add_padded(struct text *text, const char *left) {
    char pad[HELP_COLUMN + 1];
    snprintf(pad, sizeof pad, "%-*.*s", HELP_COLUMN, HELP_COLUMN, left);
    add_text(text, pad);
}

/* Words behind `used` columns, on lines that begin at HELP_COLUMN and end at HELP_WIDTH. */
static void add_words(struct text *text, int used, const char *words) {
    for (size_t length; *words; words += length) {
        const size_t blanks = strspn(words, " \n");
        words += blanks;
        length = strcspn(words, " \n");
        if (used > HELP_COLUMN && used + (int)length + 1 > HELP_WIDTH) {
            add_text(text, "\n");
            add_padded(text, "");
            used = HELP_COLUMN;
        } else if (used > HELP_COLUMN) {
            add_text(text, " ");
            used++;
        }
        add(text, words, length);
        used += (int)length;
    }
}

/* "  -k, --topk N              help text [5]" */
static void help_row(struct text *text, const struct cli_group *group,
                     const struct cli_option *row) {
    char left[128], value[128], shown[sizeof value + 2];
    int used = snprintf(left, sizeof left, "  %c%c%c --%s%s%s", row->letter ? '-' : ' ',
                        row->letter ? row->letter : ' ', row->letter ? ',' : ' ', row->name,
                        row->argument ? " " : "", row->argument ? row->argument : "");
    const char *rest = row->help;
    if (used > HELP_COLUMN - 2) {
        add_line(text, left);
        left[0] = 0;
    }
    for (;;) {
        size_t length = strcspn(rest, "\n");
        add_padded(text, left);
        add(text, rest, length);
        used = HELP_COLUMN + (int)length;
        if (!rest[length]) break;
        add_text(text, "\n");
        rest += length + 1;
        left[0] = 0;
    }
    show_default(group, row, value, sizeof value);
    snprintf(shown, sizeof shown, "[%s]", value);
    if (value[0] && used + (int)strlen(shown) + 1 > HELP_WIDTH) {
        add_text(text, "\n");
        add_padded(text, "");
        used = HELP_COLUMN;
    }
    if (value[0]) add_words(text, used, shown);
    add_text(text, "\n");
}

char *cli_help(const struct cli *cli) {
    static const struct cli_option help = {
        .letter = 'h', .name = "help", .kind = CLI_FLAG, .help = "this text"};
    const struct cli_group own = {.rows = &help, .count = 1, .target = (void *)(uintptr_t)cli};
    struct text text = {0};
    add_text(&text, "Usage: vitrine ");
    add_text(&text, cli->command);
    add_text(&text, " ");
    add_line(&text, cli->synopsis);
    add_text(&text, "\n");
    add_line(&text, cli->about);
    for (size_t g = 0; g < cli->group_count; g++) {
        add_text(&text, "\n");
        add_text(&text, cli->groups[g].title);
        add_line(&text, ":");
        for (size_t r = 0; r < cli->groups[g].count; r++)
            help_row(&text, &cli->groups[g], &cli->groups[g].rows[r]);
    }
    help_row(&text, &own, &help);
    if (cli->examples) {
        add_line(&text, "\nExamples:");
        add_line(&text, cli->examples);
    }
    if (!text.failed) return text.bytes;
    mem_free(text.bytes);
    return NULL;
}

/* ---- talking -------------------------------------------------------------------------------- */

/*
 * File names may hold anything; on a terminal a control byte of theirs could move the cursor or
 * fake a line, and half a character show as nothing: they are shown as \n or \x1b.
 */
static void say(const char *text) {
    for (size_t left = strlen(text), step; left; text += step, left -= step) {
        size_t length = utf8_printable(text, left);
        step = length ? length : 1;
        if (length)
            fwrite(text, 1, length, stderr);
        else if (*text == '\n')
            fputs("\\n", stderr);
        else
            fprintf(stderr, "\\x%02x", (unsigned char)*text);
    }
    fputc('\n', stderr);
}

void cli_say(const char *fmt, ...) {
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    say(text);
}

int cli_fail(const char *command, enum status st) {
    const char *sentence = fail_message();
    if (sentence[0]) cli_say("vitrine %s: %s", command, sentence);
    if (st != ST_USAGE) return 1;
    cli_say("see 'vitrine %s --help'", command);
    return 2;
}

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
