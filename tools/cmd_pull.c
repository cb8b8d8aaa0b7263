/*
 * vitrine pull NAME...: official checkpoints, downloaded, checked and converted, so that -m NAME
 * finds them; pull --list: which there are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/model.h"
#include "tools/pull.h"
#include "tools/rows.h"
#include "weights/models/embedded.h"

struct pull_command {
    struct pull_options pull;
    bool list, no_progress;
    int format; /* index into format_words */
};

static const char *const format_words[] = {"text", "tsv", "json", NULL};

/* ---- the list -------------------------------------------------------------------------------- */

/* In whatever case. */
static bool contains(const char *text, const char *word) {
    const size_t length = strlen(word);
    for (; *text; text++)
        if (strncasecmp(text, word, length) == 0) return true;
    return length == 0;
}

/* Whether every argument is a part of the entry's name, origin or licence. */
static bool wanted(const struct catalog_entry *entry, const struct cli_args *args) {
    char text[512];
    snprintf(text, sizeof text, "%s %s %s", entry->name, entry->origin, entry->license);
    for (int i = 0; i < args->count; i++)
        if (!contains(text, args->items[i])) return false;
    return true;
}

static bool is_here(const char *folder, const char *name) {
    char *path = folder ? str_format("%s/%s.h5", folder, name) : NULL;
    bool here = path && access(path, F_OK) == 0;
    mem_free(path);
    return here;
}

static void list_json(const struct catalog_entry *e, bool here, bool first) {
    /* Names, addresses and licences of the table are plain ASCII without quotes. */
    printf("%s  {\"name\": \"%s\", \"top1\": ", first ? "[\n" : ",\n", e->name);
    if (e->top1 > 0)
        printf("%g", e->top1);
    else
        printf("null");
    printf(", \"bytes\": %llu, \"parameters\": %llu, \"classes\": %d, \"license\": \"%s\", "
           "\"origin\": \"%s\", \"architecture\": \"%s\", \"address\": \"%s\", \"sha256\": ",
           (unsigned long long)catalog_bytes(e), (unsigned long long)e->parameters, e->classes,
           e->license, e->origin, e->arch, e->address);
    printf(e->sha256 ? "\"%s\"" : "null", e->sha256);
    printf(", \"pulled\": %s}", here ? "true" : "false");
}

static void list_tsv(const struct catalog_entry *e, bool here, bool first) {
    if (first)
        puts("name\ttop1\tbytes\tparameters\tclasses\tlicense\torigin\tarchitecture\taddress\t"
             "sha256\tpulled");
    printf("%s\t", e->name);
    if (e->top1 > 0) printf("%g", e->top1);
    printf("\t%llu\t%llu\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", (unsigned long long)catalog_bytes(e),
           (unsigned long long)e->parameters, e->classes, e->license, e->origin, e->arch,
           e->address, e->sha256 ? e->sha256 : "", here ? "yes" : "no");
}

static void list_text(const struct catalog_entry *e, bool here, bool first) {
    char top1[16] = "-";
    if (first)
        printf("%-60s %6s %7s  %-13s %-13s %s\n", "name", "top-1", "MB", "licence", "origin",
               "pulled");
    if (e->top1 > 0) snprintf(top1, sizeof top1, "%.2f", e->top1);
    printf("%-60s %6s %7.0f  %-13s %-13s %s\n", e->name, top1, 1e-6 * (double)catalog_bytes(e),
           e->license, e->origin, here ? "yes" : "no");
}

static enum status list(const struct pull_command *o, const struct cli_args *args) {
    static void (*const writers[])(const struct catalog_entry *, bool, bool) = {list_text, list_tsv,
                                                                                list_json};
    struct catalog_entry entry;
    struct word_list words = {0};
    char *folder = model_folder(); /* NULL: then nothing is there */
    size_t count = 0;
    for (size_t i = 0; catalog_at(i, &entry); i++) {
        if (wanted(&entry, args))
            writers[o->format](&entry, is_here(folder, entry.name), count++ == 0);
    }
    mem_free(folder);
    if (o->format == 2) puts(count ? "\n]" : "[]");
    if (count || o->format == 2) return ST_OK;
    for (int i = 0; i < args->count; i++)
        word_list_add(&words, "'%s'", args->items[i]);
    return fail(ST_IO, "no official checkpoint with %s in its name, origin or licence",
                word_list_text(&words));
}

/* ---- which name ------------------------------------------------------------------------------ */

/* "; there is A, B, C": names that contain the word, or the one most like it. */
static void suggest(const char *name, char *text, size_t size) {
    static const char *names[1024];
    struct word_list like = {.most = 6};
    struct catalog_entry entry;
    const char *nearest;
    size_t held = 0;
    text[0] = 0;
    for (size_t i = 0; catalog_at(i, &entry); i++) {
        if (held < COUNT_OF(names)) names[held++] = entry.name;
        if (contains(entry.name, name)) word_list_add(&like, "%s", entry.name);
    }
    nearest = like.shown ? NULL : cli_nearest(name, names, held);
    if (like.shown) snprintf(text, size, "; there is %s", word_list_text(&like));
    if (nearest) snprintf(text, size, "; did you mean %s?", nearest);
}

/* A name may become a file's name, and must not hide behind an embedded model. */
static enum status check_name(const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+";
    size_t length = strlen(name);
    for (size_t i = 0; embedded_model_name(i); i++)
        if (strcmp(name, embedded_model_name(i)) == 0)
            return fail(ST_USAGE, "%s: is the name of an embedded model", name);
    if (length > 200)
        return fail(ST_USAGE, "%.40s...: a name of %zu bytes, want at most 200", name, length);
    if (length > 3 && strcmp(name + length - 3, ".h5") == 0)
        return fail(ST_USAGE, "%s: a model's name is without .h5, want %.*s", name, (int)length - 3,
                    name);
    if (length && name[0] != '.' && name[0] != '-' && strspn(name, letters) == length) return ST_OK;
    return fail(ST_USAGE, "%s: is no name for a model, want letters, digits and . _ - +", name);
}

/* An address has a host. */
static enum status check_from(const char *from) {
    const char *scheme = strstr(from, "://");
    if (!*from)
        return fail(ST_USAGE, "option --from: is empty, want an address, a file or a folder");
    if (!scheme || strcspn(scheme + 3, "/?#")) return ST_OK;
    return fail(ST_USAGE, "option --from: %s: is no address, it has no host", from);
}

/* An entry of one's own: what --from gives, called NAME. */
static enum status own_entry(const char *name, const char *from, struct catalog_entry *out) {
    const char *slash = strrchr(from, '/'), *file = slash ? slash + 1 : from;
    size_t length = strcspn(file, "?#");
    *out = (struct catalog_entry){.name = name, .origin = "--from"};
    if (!length || file[0] == '.') file = "model.safetensors", length = strlen(file);
    if (length > 200) return fail(ST_USAGE, "option --from: %s: has too long a name", from);
    snprintf(out->address, sizeof out->address, "/%.*s", (int)length, file);
    return ST_OK;
}

static enum status find_entry(const struct pull_command *o, const char *name,
                              struct catalog_entry *out) {
    char more[640];
    TRY(check_name(name));
    if (catalog_find(name, out)) return ST_OK;
    if (o->pull.from) return own_entry(name, o->pull.from, out);
    suggest(name, more, sizeof more);
    return fail(ST_USAGE, "%s: no official checkpoint of that name%s (vitrine pull --list)", name,
                more);
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum status parse_sha256(const char *value, void *field) {
    const char **out = field;
    size_t length = strlen(value);
    if (length < 8 || length > 64 || strspn(value, "0123456789abcdef") != length)
        return fail(ST_USAGE, "8 to 64 hexadecimal digits in lower case");
    *out = value;
    return ST_OK;
}

static enum status check_line(const struct pull_command *o, const struct cli_args *args) {
    struct catalog_entry entry;
    if (args->count == 0)
        return fail(ST_USAGE, "want the name of a checkpoint (vitrine pull --list shows them)");
    if (args->count > 1 &&
        (o->pull.from || o->pull.sha256 || o->pull.recipe.arch || o->pull.recipe.key))
        return fail(ST_USAGE, "options --from, --sha256, --arch and --key go with one name, got %d",
                    args->count);
    if (o->pull.from) TRY(check_from(o->pull.from));
    for (int i = 0; i < args->count; i++)
        TRY(find_entry(o, args->items[i], &entry));
    return ST_OK;
}

/* One after the other; one that fails does not keep the others from coming. */
static int pull_all(const struct pull_command *o, const struct cli_args *args) {
    int code = 0;
    for (int i = 0; i < args->count; i++) {
        struct catalog_entry entry;
        enum status st = find_entry(o, args->items[i], &entry);
        if (st == ST_OK) st = pull_model(&entry, &o->pull);
        if (st != ST_OK) code = cli_fail("pull", st);
    }
    return code;
}

#define ROW(member) offsetof(struct pull_command, member)

static const struct cli_option rows[] = {
    {0, "list", NULL, CLI_FLAG, ROW(list),
     .help = "lists what can be pulled; with words, only what has them in its name,\norigin or "
             "licence"},
    {'f', "format", "F", CLI_CHOICE, ROW(format), .help = "of the list: text, tsv, json",
     .choices = format_words},
    {0, "from", "WHERE", CLI_STRING, ROW(pull.from),
     .help = "another place for it: an address (https://, http://; with / at the end\nthe file's "
             "name is added), a file or a folder",
     .unset = "the official address"},
    {0, "sha256", "HEX", CLI_CUSTOM, ROW(pull.sha256),
     .help =
         "what the file must hash to, or its first digits; a model that is\nhere already is asked "
         "what it was made of",
     .unset = "what its origin published", .parse = parse_sha256},
    {0, "force", NULL, CLI_FLAG, ROW(pull.force),
     .help = "pulls what is here already; the model is replaced at the end"},
    {0, "keep", NULL, CLI_FLAG, ROW(pull.keep),
     .help = "keeps what was downloaded, in NAME.checkpoint beside the model"},
    {0, "timeout", "SECONDS", CLI_DOUBLE, ROW(pull.timeout),
     .help = "gives up when no connection, or then no byte, comes for so long", .lo = 0.1,
     .hi = 86400},
    {0, "retries", "N", CLI_INT, ROW(pull.retries),
     .help = "how often a connection that was cut is taken up again", .lo = 0, .hi = 1000},
    {'q', "quiet", NULL, CLI_FLAG, ROW(pull.quiet), .help = "errors only"},
    {0, "no-progress", NULL, CLI_FLAG, ROW(no_progress), .help = "no progress line"},
};

int cmd_pull(int argc, char **argv) {
    struct pull_command o = {.pull = {.timeout = 30, .retries = 3}};
    const struct cli_group groups[] = {{"Options of pull", rows, COUNT_OF(rows), &o},
                                       recipe_group(&o.pull.recipe)};
    const struct cli cli = {
        .command = "pull",
        .synopsis = "[OPTION]... NAME...  |  --list [WORD]...",
        .about =
            "Downloads an official checkpoint, checks its hash and converts it to a vitrine\n"
            "model, which -m NAME then finds: in $VITRINE_MODELS, else $XDG_DATA_HOME/vitrine,\n"
            "else ~/.local/share/vitrine. The same command goes on with a download that was\n"
            "interrupted. Proxies are taken from the environment (https_proxy, no_proxy). What is\n"
            "said of the conversion goes over what the catalog says of it.",
        .examples = "  vitrine pull deit_tiny_patch16_224.fb_in1k\n"
                    "  vitrine classify -m deit_tiny_patch16_224.fb_in1k cat.jpg\n"
                    "  vitrine pull --list swin mit\n"
                    "  vitrine pull --from model.safetensors deit_tiny_patch16_224.fb_in1k\n"
                    "  vitrine pull --from runs/best.pth --arch vit_small_patch16_224 my-vit\n",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .min_args = 0,
        .max_args = -1,
        .args_wanted = "a name"};
    struct cli_args args;
    enum status st;
    int code = cli_parse(&cli, argc, argv, &args);
    if (code != CLI_GO) return code;
    o.pull.progress = !o.pull.quiet && !o.no_progress && isatty(STDERR_FILENO);
    st = o.list ? list(&o, &args) : check_line(&o, &args);
    if (st != ST_OK)
        code = cli_fail("pull", st);
    else
        code = o.list ? 0 : pull_all(&o, &args);
    recipe_release(&o.pull.recipe);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0)
        code = cli_fail("pull", fail(ST_IO, "stdout could not be written"));
    return code;
}
