/* rows: see rows.h. One writer a format; errors of the file are found by its owner's flush. */
#include "tools/rows.h"

#include <math.h>
#include <string.h>

/* 9 significant digits bring every fp32 back; the decimal sign is a dot in every locale. */
const char *rows_score_text(float score, const char *format, char text[48]) {
    char *comma;
    snprintf(text, 48, format, (double)score);
    comma = strchr(text, ',');
    if (comma) *comma = '.';
    return text;
}

/* The id, or the index as text when the model names none. */
static const char *id_text(const struct row_prediction *p, char text[16]) {
    if (p->id) return p->id;
    snprintf(text, 16, "%d", p->index);
    return text;
}

/* ---- TSV ------------------------------------------------------------------------------------ */

static void put_tsv(FILE *file, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '\t': fputs("\\t", file); break;
        case '\n': fputs("\\n", file); break;
        case '\r': fputs("\\r", file); break;
        case '\\': fputs("\\\\", file); break;
        default: fputc((unsigned char)*text, file);
        }
    }
}

/* ---- CSV ------------------------------------------------------------------------------------ */

static void put_csv(FILE *file, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc((unsigned char)*text, file);
    }
    fputc('"', file);
}

void rows_put_field(FILE *file, enum row_format format, const char *text) {
    (format == ROW_TSV ? put_tsv : put_csv)(file, text);
}

/* ---- both tables ---------------------------------------------------------------------------- */

enum { FIELDS = 8, TARGET_FIELDS = 6 };

static void table_header(const struct rows *rows) {
    static const char *const names[FIELDS + TARGET_FIELDS] = {
        "path",    "status", "rank",      "index",        "id",      "label",       "score",
        "message", "target", "target_id", "target_label", "correct", "target_rank", "target_score"};
    for (int i = 0; i < (rows->targets ? FIELDS + TARGET_FIELDS : FIELDS); i++)
        fprintf(rows->file, "%s%s", i ? rows->format == ROW_TSV ? "\t" : "," : "", names[i]);
    fputc('\n', rows->file);
}

static void put_fields(const struct rows *rows, const char *const *fields, int count) {
    bool tsv = rows->format == ROW_TSV;
    for (int i = 0; i < count; i++) {
        if (i) fputc(tsv ? '\t' : ',', rows->file);
        (tsv ? put_tsv : put_csv)(rows->file, fields[i]);
    }
}

/* Behind the other fields. */
static void put_target(const struct rows *rows, const struct row *row) {
    const struct row_target *t = row->target;
    char index[16] = "", rank[16] = "", score[48] = "";
    const bool known = t->index >= 0, judged = known && t->rank > 0;
    const char *fields[TARGET_FIELDS] = {index, "", "", "", rank, score};
    if (known) snprintf(index, sizeof index, "%d", t->index);
    fields[1] = t->id ? t->id : index;
    fields[2] = t->label ? t->label : fields[1];
    if (judged) {
        fields[3] = t->rank == 1 ? "1" : "0";
        snprintf(rank, sizeof rank, "%d", t->rank);
        rows_score_text(t->score, "%.9g", score);
    }
    fputc(rows->format == ROW_TSV ? '\t' : ',', rows->file);
    put_fields(rows, fields, TARGET_FIELDS);
}

static void table_line(const struct rows *rows, const struct row *row,
                       const char *const fields[FIELDS]) {
    put_fields(rows, fields, FIELDS);
    if (rows->targets) put_target(rows, row);
    fputc('\n', rows->file);
}

static void write_table(const struct rows *rows, const struct row *row) {
    if (row->error) {
        const char *fields[FIELDS] = {row->path, "error", "", "", "", "", "", row->error};
        table_line(rows, row, fields);
        return;
    }
    for (int i = 0; i < row->count; i++) {
        const struct row_prediction *p = &row->predictions[i];
        char rank[16], index[16], number[16], score[48];
        const char *id = id_text(p, number);
        const char *fields[FIELDS] = {row->path, "ok", rank, index, id, p->label ? p->label : id,
                                      score,     ""};
        snprintf(rank, sizeof rank, "%d", i + 1);
        snprintf(index, sizeof index, "%d", p->index);
        rows_score_text(p->score, "%.9g", score);
        table_line(rows, row, fields);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

char *rows_utf8(const char *text) {
    const char *end = text + strlen(text);
    char *out = mem_zalloc(3 * (size_t)(end - text) + 1, 1), *at = out;
    while (out && text < end) {
        const size_t length = utf8_length(text, (size_t)(end - text));
        memcpy(at, length ? text : "\xef\xbf\xbd", length ? length : 3);
        at += length ? length : 3;
        text += length ? length : 1;
    }
    return out;
}

static void put_json(FILE *file, const char *text) {
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    fputc('"', file);
    while (at < end) {
        size_t length = utf8_length(at, (size_t)(end - at));
        const char *escape = strchr(plain, *at);
        if (length == 0) {
            fputs("\xef\xbf\xbd", file); /* U+FFFD */
            length = 1;
        } else if (escape)
            fprintf(file, "\\%c", letter[escape - plain]);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(file, "\\u%04x", *at);
        else
            fwrite(at, 1, length, file);
        at += length;
    }
    fputc('"', file);
}

static void put_json_prediction(FILE *file, const struct row_prediction *p, int rank) {
    char number[16], score[48];
    const char *id = id_text(p, number);
    fprintf(file, "%s{\"rank\":%d,\"index\":%d,\"id\":", rank > 1 ? "," : "", rank, p->index);
    put_json(file, id);
    fputs(",\"label\":", file);
    put_json(file, p->label ? p->label : id);
    /* JSON has no word for what is not a number. */
    fprintf(file, ",\"score\":%s}",
            isfinite(p->score) ? rows_score_text(p->score, "%.9g", score) : "null");
}

static void put_json_target(FILE *file, const struct row_target *t) {
    char number[16], score[48];
    const bool known = t->index >= 0;
    snprintf(number, sizeof number, "%d", t->index);
    fprintf(file, ",\"target\":%s,\"target_id\":", known ? number : "null");
    if (known)
        put_json(file, t->id ? t->id : number);
    else
        fputs("null", file);
    fputs(",\"target_label\":", file);
    if (known || t->label)
        put_json(file, t->label ? t->label : t->id ? t->id : number);
    else
        fputs("null", file);
    if (known && t->rank > 0)
        fprintf(file, ",\"correct\":%s,\"target_rank\":%d,\"target_score\":%s",
                t->rank == 1 ? "true" : "false", t->rank, rows_score_text(t->score, "%.9g", score));
    else
        fputs(",\"correct\":null,\"target_rank\":null,\"target_score\":null", file);
}

static void write_object(FILE *file, const struct row *row) {
    fputs("{\"path\":", file);
    put_json(file, row->path);
    if (!utf8_is(row->path)) {
        fputs(",\"path_hex\":\"", file);
        for (const char *at = row->path; *at; at++)
            fprintf(file, "%02x", (unsigned char)*at);
        fputc('"', file);
    }
    fprintf(file, ",\"status\":\"%s\"", row->error ? "error" : "ok");
    if (row->error) {
        fputs(",\"width\":null,\"height\":null,\"predictions\":[],\"message\":", file);
        put_json(file, row->error);
    } else {
        fprintf(file, ",\"width\":%d,\"height\":%d,\"predictions\":[", row->width, row->height);
        for (int i = 0; i < row->count; i++)
            put_json_prediction(file, &row->predictions[i], i + 1);
        fputs("],\"message\":null", file);
    }
    if (row->target) put_json_target(file, row->target);
    fputc('}', file);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* A file's name must not move the cursor, nor look like two. */
static void put_visible(FILE *file, const char *text) {
    for (; *text; text++) {
        char one[2] = {*text, 0};
        if ((unsigned char)*text >= 0x20 && *text != 0x7f)
            fputc((unsigned char)*text, file);
        else if (strchr("\t\n\r", *text))
            put_tsv(file, one);
        else
            fprintf(file, "\\x%02x", (unsigned char)*text);
    }
}

static void write_text(FILE *file, const struct row *row) {
    char number[16], score[48];
    int width = 0;
    put_visible(file, row->path);
    fputc('\n', file);
    if (row->error) {
        fputs("  error: ", file);
        put_visible(file, row->error);
        fputc('\n', file);
        return;
    }
    for (int i = 0; i < row->count; i++) {
        int length = (int)strlen(id_text(&row->predictions[i], number));
        if (length > width) width = length;
    }
    for (int i = 0; i < row->count; i++) {
        const struct row_prediction *p = &row->predictions[i];
        const char *id = id_text(p, number);
        fprintf(file, "  %s  ", rows_score_text(p->score, "%6.4f", score));
        /* The id stands once where the model has no other name for the class. */
        if (p->label && strcmp(p->label, id) != 0) fprintf(file, "%-*s  ", width, id);
        put_visible(file, p->label ? p->label : id);
        fputc('\n', file);
    }
}

/* ---- the door ------------------------------------------------------------------------------- */

void rows_predict(const struct labels *labels, const float *scores, const int *index, int count,
                  struct row_prediction *out) {
    for (int i = 0; i < count; i++) {
        const int class = index[i];
        const bool named = class < labels->count;
        out[i] = (struct row_prediction){.index = class,
                                         .id = named ? labels->id[class] : NULL,
                                         .label = named ? labels->name[class] : NULL,
                                         .score = scores[class]};
    }
}

void rows_begin(struct rows *rows, FILE *file, enum row_format format, bool targets) {
    *rows = (struct rows){.file = file, .format = format, .targets = targets};
    if (format == ROW_TSV || format == ROW_CSV) table_header(rows);
    if (format == ROW_JSON) fputc('[', file);
}

void rows_write(struct rows *rows, const struct row *row) {
    switch (rows->format) {
    case ROW_TEXT: write_text(rows->file, row); break;
    case ROW_TSV:
    case ROW_CSV: write_table(rows, row); break;
    case ROW_JSON:
        fputs(rows->written ? ",\n " : "\n ", rows->file);
        write_object(rows->file, row);
        break;
    case ROW_JSONL:
        write_object(rows->file, row);
        fputc('\n', rows->file);
        break;
    }
    rows->written++;
}

void rows_end(struct rows *rows) {
    if (rows->format == ROW_JSON) fputs(rows->written ? "\n]\n" : "]\n", rows->file);
}
