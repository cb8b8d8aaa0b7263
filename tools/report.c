/* report: the page around an evaluation; see report.h. */
#include "tools/report.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "tools/rows.h"
#include "tools/page.h"
#include "weights/embed.h"

EMBED(report_page, "tools/report.html");

/* ---- the command line ------------------------------------------------------------------------ */

/* Text that grows; NULL once memory was short. */
static void append(char **text, const char *piece, const char *more) {
    char *longer = *text ? str_format("%s%s%s", *text, piece, more) : NULL;
    mem_free(*text);
    *text = longer;
}

/* Every byte as itself or \xNN, inside $'...'. */
static void append_bytes(char **text, const char *argument) {
    append(text, "$'", "");
    for (const char *at = argument; *at; at++) {
        const bool plain = *at >= ' ' && *at <= '~';
        char byte[8];
        if (!plain)
            snprintf(byte, sizeof byte, "\\x%02x", (unsigned char)*at);
        else
            snprintf(byte, sizeof byte, "%s%c", *at == '\'' || *at == '\\' ? "\\" : "", *at);
        append(text, byte, "");
    }
    append(text, "'", "");
}

static void append_quoted(char **text, const char *argument) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789@%+=:,./_-";
    if (argument[0] && argument[strspn(argument, plain)] == 0) {
        append(text, argument, "");
    } else if (argument[0] && !utf8_is_line(argument)) {
        append_bytes(text, argument);
    } else {
        append(text, "'", "");
        for (const char *quote; (quote = strchr(argument, '\'')); argument = quote + 1) {
            char *piece = str_format("%.*s", (int)(quote - argument), argument);
            append(text, piece ? piece : "", "'\\''");
            mem_free(piece);
        }
        append(text, argument, "'");
    }
}

char *report_command(int argc, char *const *argv) {
    char *text = str_copy("vitrine");
    for (int i = 0; i < argc; i++) {
        append(&text, " ", "");
        if (text) append_quoted(&text, argv[i]);
    }
    return text;
}

/* ---- data ------------------------------------------------------------------------------------ */

static void put_text(cJSON *object, const char *name, const char *text) {
    char *clean = text ? rows_utf8(text) : NULL;
    if (clean) cJSON_AddStringToObject(object, name, clean);
    mem_free(clean);
}

static void put_number(cJSON *list, double number) {
    cJSON_AddItemToArray(list, cJSON_CreateNumber(number));
}

/* Only what is not 0: a list a target, of its index and then pairs of prediction and images. */
static enum status put_confusion(cJSON *root, const struct metrics *m) {
    cJSON *lines = cJSON_AddArrayToObject(root, "confusion"), *line = NULL;
    size_t count;
    struct metrics_pair *pairs = metrics_pairs(m, false, &count);
    if (m->pair_count && !pairs) return ST_NOMEM;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || pairs[i].target != pairs[i - 1].target) {
            line = cJSON_CreateArray();
            cJSON_AddItemToArray(lines, line);
            put_number(line, pairs[i].target);
        }
        put_number(line, pairs[i].best);
        put_number(line, (double)pairs[i].count);
    }
    mem_free(pairs);
    return ST_OK;
}

static void put_run(cJSON *root, const struct report *r) {
    const struct pipeline_totals *totals = r->about->totals;
    cJSON *run = cJSON_AddObjectToObject(root, "run"), *devices;
    struct tm calendar;
    char time[32] = "";
    if (gmtime_r(&r->finished, &calendar))
        strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &calendar);
    cJSON_AddStringToObject(run, "version", VERSION);
    put_text(run, "command", r->command);
    cJSON_AddStringToObject(run, "finished", time);
    cJSON_AddBoolToObject(run, "merged", r->about->merged);
    put_text(run, "form", r->about->form);
    put_text(run, "architecture", r->architecture);
    cJSON_AddNumberToObject(run, "parameters", (double)r->parameters);
    if (!r->about->merged) {
        cJSON_AddNumberToObject(run, "images", (double)totals->images);
        cJSON_AddNumberToObject(run, "seconds", totals->seconds);
    }
    devices = cJSON_AddArrayToObject(run, "devices");
    for (int i = 0; i < r->device_count; i++)
        cJSON_AddItemToArray(devices, cJSON_CreateString(r->devices[i]));
}

static void put_missing(cJSON *root, const struct report *r) {
    const cJSON *worst = cJSON_GetObjectItemCaseSensitive(root, "worst");
    cJSON *one;
    int i = 0;
    cJSON_ArrayForEach(one, worst) put_text(one, "missing", r->pictures->of[i++].missing);
}

/* As text in fresh memory of cJSON's. */
static enum status make_data(const struct report *r, char **text) {
    cJSON *root = evaluation_json(r->evaluation, r->about, REPORT_STRANGERS);
    enum status st = put_confusion(root, &r->evaluation->metrics);
    cJSON_AddNumberToObject(root, "class_count", r->evaluation->metrics.classes);
    cJSON_AddNumberToObject(root, "topk", r->evaluation->metrics.topk);
    cJSON_AddNumberToObject(root, "unmatched_count", (double)r->evaluation->strangers.count);
    put_run(root, r);
    put_missing(root, r);
    if (r->rows) cJSON_AddItemToObject(root, "rows", cJSON_Parse(r->rows));
    *text = st == ST_OK ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return *text ? ST_OK : fail(ST_NOMEM, "no memory for the report");
}

/* ---- the page -------------------------------------------------------------------------------- */

/* A list of data URLs, "" where there is no picture. */
static void print_pictures(const struct report *r, FILE *file) {
    fputc('[', file);
    for (int i = 0; i < r->evaluation->worst_count; i++) {
        const struct report_picture *picture = &r->pictures->of[i];
        fputs(i ? ",\n\"" : "\"", file);
        if (picture->bytes.size) {
            fprintf(file, "data:image/%s;base64,", picture->png ? "png" : "jpeg");
            picture_print_base64(picture->bytes.bytes, picture->bytes.size, file);
        }
        fputc('"', file);
    }
    fputc(']', file);
}

/* The page up to a mark; returns what stands behind it. */
static const char *print_up_to(const char *page, const char *mark, FILE *file) {
    const char *at = strstr(page, mark);
    fwrite(page, 1, at ? (size_t)(at - page) : strlen(page), file);
    return at ? at + strlen(mark) : "";
}

enum status report_write(const struct report *report, FILE *file) {
    const char *page = (const char *)report_page;
    char *data;
    TRY(make_data(report, &data));
    page = print_up_to(page, "{{data}}", file);
    page_print_json(data, file);
    page = print_up_to(page, "{{pictures}}", file);
    print_pictures(report, file);
    fputs(page, file);
    cJSON_free(data);
    return ST_OK;
}
