/*
 * dataset_list: a folder of images and a file that says what they show:
 *
 *   path,label        csv; tab or the last blank separate as well; '"' quotes, '""' is one inside
 *   490               a number a line: that of the n-th image by name (ILSVRC2012's ground truth)
 *
 * A first line of column names ("file_name,label") says which columns count. The images come sorted
 * by path, then what is listed from elsewhere or is not there.
 */
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "datasets/dataset_forms.h"

#define LARGEST_LIST ((size_t)1 << 30)
enum { MOST_COLUMNS = 64 };

/* A list while it is read. */
struct list {
    struct dataset *dataset;
    struct dataset_files *files;
    const struct dataset_source *source;
    size_t root;
    char *prefix;       /* (root) "DIR/" */
    struct texts paths; /* of inputs' entries, same numbers: below the folder, or whole */
    size_t capacity;    /* of files->targets */
    char separator;     /* ',' '\t' ' '; 0: one column */
    int path, label;    /* columns */
    int columns;        /* wanted in a line; 0: at least those two */
    size_t line, labels, foreign;
    uint64_t sum;
};

static bool takes(const struct dataset_source *source) {
    return source->folder && source->labels;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Where the field at `text` ends: '\0', or a separator; a quoted one is unquoted in place. */
static char *field_end(char *text, char separator, bool *broken) {
    char *to = text, *from = text + 1;
    if (*text != '"') return text + strcspn(text, (char[]){separator, '\0'});
    for (; *from; from++) {
        if (*from == '"' && from[1] == '"')
            from++;
        else if (*from == '"')
            break;
        *to++ = *from;
    }
    *broken = *from != '"' || (from[1] && from[1] != separator);
    *to = '\0';
    return *from ? from + 1 : from;
}

static char *trim(char *text) {
    size_t length;
    text += strspn(text, " ");
    for (length = strlen(text); length && text[length - 1] == ' '; length--)
        text[length - 1] = '\0';
    return text;
}

/* Cuts a line into fields[MOST_COLUMNS], *count of them. */
static enum status split(const struct list *list, char *line, char **fields, int *count) {
    bool broken = false, more = true;
    *count = 0;
    if (list->separator == ' ') { /* the path may have blanks */
        char *blank = strrchr(line, ' ');
        fields[1] = blank ? blank + 1 : NULL;
        if (blank) *blank = '\0';
        fields[0] = trim(line);
        *count = blank ? 2 : 1;
        return ST_OK;
    }
    while (more) {
        char *end;
        if (*count == MOST_COLUMNS)
            return fail(ST_FORMAT, "line %zu has more than %d fields", list->line, MOST_COLUMNS);
        end = field_end(line, list->separator, &broken);
        if (broken)
            return fail(ST_FORMAT, "line %zu has a quote that is not closed, or text behind one",
                        list->line);
        more = list->separator && *end == list->separator;
        *end = '\0';
        fields[(*count)++] = trim(line);
        line = end + 1;
    }
    return ST_OK;
}

static int column_named(char *const *fields, int count, const char *const *names) {
    for (int i = 0; i < count; i++)
        for (size_t n = 0; names[n]; n++)
            if (strcasecmp(fields[i], names[n]) == 0) return i;
    return -1;
}

/* Whether the first line names the columns. */
static bool take_header(struct list *list, char *const *fields, int count) {
    static const char *const paths[] = {"path",      "file",     "filename",   "file_name",
                                        "image",     "filepath", "image_path", "image_name",
                                        "file_path", "img",      "image_id",   "imageid",
                                        "name",      "id",       NULL};
    static const char *const labels[] = {"label",    "class", "target", "category",   "wnid",
                                         "class_id", "y",     "labels", "class_name", NULL};
    const int path = column_named(fields, count, paths);
    const int label = column_named(fields, count, labels);
    if (path < 0 || count < 2 || (label < 0 && count > 2)) return false;
    list->path = path;
    list->label = label >= 0 && label != path ? label : !path;
    list->columns = 0;
    return true;
}

/* ---- what a line names ---------------------------------------------------------------------- */

/* An entry from elsewhere, or that is missing; its number is that of its path. */
static enum status add_foreign(struct list *list, const char *path, bool there, size_t *number) {
    void *targets = list->files->targets;
    const size_t before = list->paths.count;
    enum status st;
    TRY(texts_add(&list->paths, path, number));
    if (list->paths.count == before) return ST_OK;
    TRY(inputs_add(&list->files->inputs, path,
                   there ? NULL : "is listed in the file of labels, but is not there"));
    st = mem_grow(&targets, &list->capacity, list->paths.count, sizeof *list->files->targets);
    list->files->targets = targets;
    if (st != ST_OK) return st;
    list->files->targets[*number] = -1;
    list->foreign++;
    return ST_OK;
}

/* `whole` as an image of the folder, if it lies in there under its name. */
static bool find_inside(const struct list *list, const char *whole, size_t *number) {
    return strncmp(whole, list->prefix, list->root) == 0 &&
           texts_find(&list->paths, whole + list->root, number);
}

/* The number of a listed path: below the folder, else beside the list, else as it is. */
static enum status find_path(struct list *list, const char *path, size_t *number) {
    char *beside, *inside;
    enum status st = ST_OK;
    while (strncmp(path, "./", 2) == 0)
        path += 2 + strspn(path + 2, "/");
    if (path[0] != '/' && texts_find(&list->paths, path, number)) return ST_OK;
    beside = path[0] == '/' ? str_copy(path) : dataset_beside(list->source->labels, path);
    inside = path[0] == '/' ? str_copy(path) : str_format("%s%s", list->prefix, path);
    if (!beside || !inside)
        st = ST_NOMEM;
    else if (find_inside(list, beside, number))
        st = ST_OK;
    else if (access(inside, F_OK) != 0 && access(beside, F_OK) == 0)
        st = add_foreign(list, beside, true, number);
    else
        st = add_foreign(list, inside, access(inside, F_OK) == 0, number);
    mem_free(beside);
    mem_free(inside);
    return st;
}

/* "path label" */
static enum status take_pair(struct list *list, char *const *fields, int count) {
    const int most = list->path > list->label ? list->path : list->label;
    const char *path, *label;
    size_t number;
    if (count <= most || (list->columns && count != list->columns))
        return fail(ST_FORMAT, "line %zu has %d fields, expected a path and a label", list->line,
                    count);
    path = fields[list->path];
    label = fields[list->label];
    if (!path[0] || !label[0] || strlen(path) > DATASET_LONGEST_NAME)
        return fail(ST_FORMAT, "line %zu has %s, expected a path and a label", list->line,
                    !path[0]    ? "no path"
                    : !label[0] ? "no label"
                                : "a path beyond all lengths");
    TRY(find_path(list, path, &number));
    if (list->files->targets[number] >= 0)
        return fail(ST_FORMAT, "line %zu: '%s' is listed a second time", list->line, path);
    list->sum = checksum(list->sum, path, strlen(path) + 1);
    list->sum = checksum(list->sum, label, strlen(label) + 1);
    list->labels++;
    return dataset_target(list->dataset, label, &list->files->targets[number]);
}

/* A number alone: of the next image. */
static enum status take_number(struct list *list, const char *text) {
    long value;
    if (!parse_long(text, 0, 1000000000, &value))
        return fail(ST_FORMAT,
                    "line %zu is '%.100s', expected a path and a label, or in every line a number",
                    list->line, text);
    list->sum = checksum(list->sum, text, strlen(text) + 1);
    if (list->labels++ >= list->files->inputs.count) return ST_OK; /* refused by the counts */
    return dataset_target(list->dataset, text, &list->files->targets[list->labels - 1]);
}

static enum status take_line(struct list *list, char *line, bool first) {
    char *fields[MOST_COLUMNS] = {line};
    int count;
    TRY(split(list, line, fields, &count));
    if (list->separator == '\0') return take_number(list, fields[0]);
    if (first && take_header(list, fields, count)) return ST_OK;
    return take_pair(list, fields, count);
}

/* ---- the file ------------------------------------------------------------------------------- */

static char separator_of(const char *path, const char *line) {
    if (strchr(line, '\t')) return '\t';
    if (strchr(line, ',') && !dataset_ends(path, ".tsv")) return ',';
    return strpbrk(line, " ") && !dataset_ends(path, ".csv") ? ' ' : '\0';
}

static enum status take_lines(struct list *list, char *text) {
    bool first = true;
    while (*text) {
        char *end = text + strcspn(text, "\n"), *line = text;
        text = *end ? end + 1 : end;
        *end = '\0';
        if (end > line && end[-1] == '\r') end[-1] = '\0';
        list->line++;
        line = trim(line);
        if (!*line) continue;
        if (first) list->separator = separator_of(list->source->labels, line);
        TRY(take_line(list, line, first));
        first = false;
    }
    return list->labels ? ST_OK : fail(ST_FORMAT, "names no image");
}

static enum status read_list(struct list *list) {
    const char *path = list->source->labels;
    uint8_t *bytes;
    size_t size;
    enum status st;
    TRY(file_read(path, LARGEST_LIST, &bytes, &size));
    char *text = str_format("%.*s", (int)size, (const char *)bytes);
    bool zero = memchr(bytes, 0, size) != NULL;
    mem_free(bytes);
    if (!text) return ST_NOMEM;
    st = zero ? fail(ST_FORMAT, "holds zero bytes, expected text, a path and a label a line")
              : take_lines(list, text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0));
    mem_free(text);
    return st == ST_OK || st == ST_NOMEM ? st : fail_prefix(st, path);
}

/* Every image of the folder under its path in it. */
static enum status open_paths(struct list *list) {
    struct inputs *in = &list->files->inputs;
    size_t number;
    if (in->count == 1 && in->entries[0].folder == 0) in->count = 0; /* it holds no image */
    for (size_t i = 0; i < in->count; i++) {
        const char *error;
        char *path = inputs_path(in, i, &error);
        enum status st = path ? texts_add(&list->paths, path + list->root, &number) : ST_NOMEM;
        mem_free(path);
        if (st != ST_OK) return st;
    }
    list->capacity = in->count;
    list->files->targets = mem_zalloc(in->count + 1, sizeof *list->files->targets);
    if (!list->files->targets) return ST_NOMEM;
    for (size_t i = 0; i < in->count; i++)
        list->files->targets[i] = -1;
    return ST_OK;
}

static enum status finish(struct list *list, size_t images) {
    struct dataset *dataset = list->dataset;
    const size_t unlisted = images + list->foreign - list->labels;
    if (!list->separator && list->labels != images)
        return fail(ST_FORMAT,
                    "%s: has %zu numbers for %zu images in %s, expected one for each image",
                    list->source->labels, list->labels, images, list->source->path);
    if (!list->separator)
        dataset->note = str_format("the labels are numbers without names, the n-th of the n-th "
                                   "image by name: in the order of whoever wrote %s",
                                   dataset_base(list->source->labels));
    else if (unlisted)
        dataset->note = str_format("%zu of %zu images have no label in %s", unlisted,
                                   images + list->foreign, dataset_base(list->source->labels));
    if ((!list->separator || unlisted) && !dataset->note) return ST_NOMEM;
    dataset->count = images + list->foreign;
    dataset->identity = str_format(
        "list: %zu images, %zu labels of %zu classes, names and labels %016llx", dataset->count,
        list->labels, dataset->classes.count, (unsigned long long)list->sum);
    return dataset->identity ? ST_OK : ST_NOMEM;
}

static enum status open_list(struct dataset *dataset, const struct dataset_source *source) {
    struct list list = {.dataset = dataset, .source = source, .sum = CHECKSUM_START};
    size_t images;
    enum status st = dataset_files_open(source->path, &list.files, &list.root);
    list.path = 0;
    list.label = 1;
    list.columns = 2;
    dataset->reader = list.files;
    if (st != ST_OK) return st;
    list.prefix = str_format("%s%s", source->path, strlen(source->path) < list.root ? "/" : "");
    st = list.prefix ? open_paths(&list) : ST_NOMEM;
    if (st != ST_OK) goto out;
    images = list.files->inputs.count;
    TRY_OUT(read_list(&list));
    st = finish(&list, images);
out:
    mem_free(list.prefix);
    texts_release(&list.paths);
    return st;
}

const struct dataset_form dataset_list = {"list", takes, open_list, dataset_files_next,
                                          dataset_files_close};
