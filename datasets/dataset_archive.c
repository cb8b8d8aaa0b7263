/*
 * dataset_archive: tar (plain, gz, bz2, xz, zst) and zip through libarchive, in one pass.
 *
 *   shard after shard -> member after member -> sample (dataset_sample.h) -> its images
 *
 * Held at a time: one sample, of at most SAMPLE_IMAGES images; when it has more, or more than
 * SAMPLE_BYTES, what is there is given out and the label is kept. A broken member of a zip costs
 * itself alone: the directory leads behind it. Where another shard is broken, its images up to
 * there are followed by one failed item by the shard's name, then by the next shard.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "datasets/dataset_gunzip.h"
#include "datasets/dataset_sample.h"
#include "datasets/dataset_shards.h"
#include "datasets/image_decoders.h"

static bool takes(const struct dataset_source *source) {
    if (source->folder) {
        for (size_t i = 0; source->others == 0 && i < source->names.count; i++)
            if (shards_suffix_known(source->names.text[i])) return true;
        return false;
    }
    return HAVE_ARCHIVE || !source->file || shards_suffix_known(source->path);
}

#if HAVE_ARCHIVE

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#define LARGEST_IMAGE ((size_t)1 << 30)
#define LARGEST_LABEL ((size_t)1 << 20)
#define SAMPLE_BYTES  ((size_t)64 << 20)
#define READ_BLOCK    ((size_t)64 << 10)
enum { MOST_RESUMED = 1000 }; /* broken members of a zip, each of which reads its directory anew */

struct reader {
    struct texts shards;
    size_t at;               /* the shard that is open, or is next */
    struct archive *archive; /* NULL: none is open */
    struct gunzip *gunzip;   /* what it reads; NULL: the file itself */
    size_t images;           /* of this shard so far */
    size_t headers, resumed; /* of it: members so far; times it was opened behind a broken one */
    char *name;              /* the member whose header was read last and that is not taken yet */
    enum member_kind kind;
    char *problem; /* of that member, known without its bytes */
    int64_t size;  /* that it claims; -1 = does not say */
    struct sample sample;
    bool complete; /* the sample's images are to be given */
    bool more;     /* it was completed early, for its size */
    char *fault;   /* of the shard, after its images */
    locale_t utf8; /* what names are read in: zip's pass through the locale; 0: not there */
};

static void drop_member(struct reader *r) {
    mem_free(r->name);
    mem_free(r->problem);
    r->name = r->problem = NULL;
}

static void close_file(struct reader *r) {
    if (r->archive) archive_read_free(r->archive);
    gunzip_close(r->gunzip);
    r->archive = NULL;
    r->gunzip = NULL;
}

/* Goes to the next shard, in the end with words on this one. */
static void end_shard(struct reader *r, const char *fault) {
    if (!fault && r->images == 0) fault = "the archive holds no image";
    if (fault) r->fault = str_copy(fault);
    close_file(r);
    r->complete = true;
    r->more = false;
    drop_member(r);
}

/* Of a shard that libarchive does not know by its beginning. */
static const char *unknown_kind(const struct reader *r) {
    struct stat info;
    if (stat(r->shards.text[r->at], &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
        return "is empty, expected a tar or zip archive";
    return "begins like no archive, or its first header is damaged, expected a tar (plain, gz, "
           "bz2, "
           "xz or zst) or a zip";
}

/* libarchive's words, which may quote the file. */
static const char *words_of(const struct reader *r, char *text, size_t size) {
    const char *words = archive_error_string(r->archive);
    if (words && strcmp(words, "Unrecognized archive format") == 0) words = unknown_kind(r);
    snprintf(text, size, "%s", words ? words : "no reason given");
    image_printable(text);
    return text;
}

static la_ssize_t read_unpacked(struct archive *archive, void *reader, const void **out) {
    const struct reader *r = reader;
    const uint8_t *bytes;
    size_t size;
    if (gunzip_read(r->gunzip, &bytes, &size) == ST_OK) {
        *out = bytes;
        return (la_ssize_t)size;
    }
    archive_set_error(archive, EIO, "%s", fail_message());
    return ARCHIVE_FATAL;
}

static enum status open_file(struct reader *r) {
    char text[512];
    struct archive *a;
    int result;
    TRY(gunzip_open(r->shards.text[r->at], &r->gunzip));
    a = r->archive = archive_read_new();
    if (!a) return fail(ST_NOMEM, "no memory to open it");
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_format_tar(a);
    archive_read_support_format_zip(a);
    result = r->gunzip ? archive_read_open(a, r, NULL, read_unpacked, NULL)
                       : archive_read_open_filename(a, r->shards.text[r->at], READ_BLOCK);
    if (result == ARCHIVE_OK) return ST_OK;
    return fail(ST_IO, "%s", words_of(r, text, sizeof text));
}

static void open_shard(struct reader *r) {
    r->images = r->headers = r->resumed = 0;
    if (open_file(r) != ST_OK) end_shard(r, fail_message());
}

/* Opens a zip again, behind its member at which libarchive gave up; false: nothing follows. */
static bool resume(struct reader *r) {
    struct archive_entry *entry;
    struct stat info;
    int result = ARCHIVE_OK;
    if (archive_format(r->archive) != ARCHIVE_FORMAT_ZIP || r->resumed++ == MOST_RESUMED ||
        stat(r->shards.text[r->at], &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    close_file(r);
    if (open_file(r) != ST_OK) return false;
    for (size_t i = 0; i < r->headers && (result == ARCHIVE_OK || result == ARCHIVE_WARN); i++)
        result = archive_read_next_header(r->archive, &entry);
    return result == ARCHIVE_OK || result == ARCHIVE_WARN;
}

/* What is known to be wrong with a member from its header; NULL = nothing. */
static char *problem_of(struct archive_entry *entry, const char *name) {
    const int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    if (strlen(name) > DATASET_LONGEST_NAME)
        return str_format("its name has %zu bytes, at most %d are read", strlen(name),
                          DATASET_LONGEST_NAME);
    if (archive_entry_hardlink(entry) || archive_entry_filetype(entry) == AE_IFLNK)
        return str_copy("is a link inside the archive, which is read in one pass: pack the images "
                        "themselves (tar -h --hard-dereference)");
    if (size < 0 || (uint64_t)size > LARGEST_IMAGE)
        return str_format("has %lld bytes, at most 1 GiB are read", (long long)size);
    return archive_entry_is_encrypted(entry) ? str_copy("is encrypted") : NULL;
}

/* A header: remembered when it is an image's or a label's. */
static enum status take_header(struct reader *r, struct archive_entry *entry) {
    const char *name = archive_entry_pathname(entry);
    const unsigned type = archive_entry_filetype(entry);
    if (type != AE_IFREG && type != AE_IFLNK && !archive_entry_hardlink(entry)) return ST_OK;
    if (!name) { /* it may have been an image: it must not vanish */
        r->kind = MEMBER_IMAGE;
        r->problem = str_copy("its name is not in UTF-8");
        r->name = str_copy("a file");
        r->complete = r->name != NULL;
        r->more = false;
        return r->name ? ST_OK : ST_NOMEM;
    }
    while (name[0] == '/' || strncmp(name, "./", 2) == 0)
        name += name[0] == '/' ? 1 : 2;
    r->kind = member_kind(name);
    if (r->kind == MEMBER_NOTHING) return ST_OK;
    r->size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : -1;
    r->problem = problem_of(entry, name);
    r->name = strlen(name) > DATASET_LONGEST_NAME ? str_format("%.200s...", name) : str_copy(name);
    if (!r->name) return ST_NOMEM;
    if (r->sample.key && (strncmp(name, r->sample.key, sample_key(name)) != 0 ||
                          strlen(r->sample.key) != sample_key(name))) {
        r->complete = true;
        r->more = false;
    }
    return ST_OK;
}

/* To the end of what is compressed, where its checksum stands. */
static enum status read_on(struct reader *r) {
    const uint8_t *bytes;
    size_t size = 1;
    while (r->gunzip && size > 0)
        TRY(gunzip_read(r->gunzip, &bytes, &size));
    return ST_OK;
}

static void next_header(struct reader *r) {
    struct archive_entry *entry;
    char text[512];
    const locale_t before = r->utf8 ? uselocale(r->utf8) : (locale_t)0;
    const int result = archive_read_next_header(r->archive, &entry);
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) {
        r->headers++;
        if (take_header(r, entry) != ST_OK) end_shard(r, fail_message());
    } else if (result == ARCHIVE_EOF) {
        end_shard(r, read_on(r) == ST_OK ? NULL : fail_message());
    } else {
        end_shard(r, words_of(r, text, sizeof text));
    }
    if (r->utf8) uselocale(before);
}

/* A member's bytes; a problem of its own into member->error. false: the archive ends here. */
static bool read_bytes(struct reader *r, struct member *member) {
    const size_t limit = r->kind == MEMBER_IMAGE ? LARGEST_IMAGE : LARGEST_LABEL;
    size_t capacity = 0,
           room = r->size > 0 && r->size < (1 << 24) ? (size_t)r->size + 1 : READ_BLOCK;
    void *bytes = NULL;
    char text[512];
    la_ssize_t got = 1;
    while (got > 0 && member->size <= limit) {
        if (member->size + 1 > capacity) room = capacity ? member->size + 1 : room;
        if (mem_grow(&bytes, &capacity, room, 1) != ST_OK) break;
        got =
            archive_read_data(r->archive, (uint8_t *)bytes + member->size, capacity - member->size);
        if (got > 0) member->size += (size_t)got;
    }
    member->bytes = bytes;
    if (got < 0)
        member->error = str_copy(words_of(r, text, sizeof text));
    else if (got > 0 && member->size > limit)
        member->error = str_format("has more than %zu bytes", limit);
    else if (got > 0)
        member->error = str_copy(fail_message());
    return got != ARCHIVE_FATAL;
}

/* Where nothing behind a member can be read. */
static void end_in_member(struct reader *r, struct member *member) {
    char words[800];
    snprintf(words, sizeof words, "%.400s, in %.300s; nothing behind it could be read",
             member->error ? member->error : "is broken", member->name);
    member_release(member);
    end_shard(r, words);
}

/* The member of the last header goes into the sample. */
static void take_member(struct reader *r) {
    struct member member = {.name = r->name, .error = r->problem};
    bool whole = true;
    r->name = r->problem = NULL;
    if (!member.error) whole = read_bytes(r, &member);
    if (member.error) {
        mem_free(member.bytes);
        member.bytes = NULL;
        member.size = 0;
    }
    r->images += r->kind == MEMBER_IMAGE;
    if (!whole && !resume(r))
        end_in_member(r, &member);
    else if (sample_take(&r->sample, r->kind, &member) != ST_OK)
        end_shard(r, fail_message());
    else if (r->sample.count == SAMPLE_IMAGES || r->sample.bytes > SAMPLE_BYTES)
        r->complete = r->more = true;
}

static bool next_archive(struct dataset *dataset, struct dataset_item *item) {
    struct reader *r = dataset->reader;
    for (;;) {
        if (r->complete) sample_choose(&r->sample);
        if (r->complete && r->sample.given < r->sample.count) {
            sample_give(&r->sample, dataset, r->shards.text[r->at], item);
            return true;
        }
        if (r->complete) {
            sample_clear(&r->sample, !r->more);
            r->complete = false;
            if (r->fault) {
                dataset_item_fault(item, r->shards.text[r->at], "%s", r->fault);
                mem_free(r->fault);
                r->fault = NULL;
            }
            if (!r->archive) r->at++;
            if (item->error) return true;
        } else if (r->name) {
            take_member(r);
        } else if (r->archive) {
            next_header(r);
        } else if (r->at < r->shards.count) {
            open_shard(r);
        } else {
            return false;
        }
    }
}

static void close_archive(void *reader) {
    struct reader *r = reader;
    close_file(r);
    if (r->utf8) freelocale(r->utf8);
    drop_member(r);
    mem_free(r->fault);
    sample_clear(&r->sample, true);
    texts_release(&r->shards);
    mem_free(r);
}

/* The first shard is opened here, so that what is no archive is refused. */
static enum status open_archive(struct dataset *dataset, const struct dataset_source *source) {
    struct reader *r = dataset->reader = mem_zalloc(1, sizeof *r);
    uint64_t size, sum;
    if (!r) return ST_NOMEM;
    TRY(dataset_without_labels(source));
    TRY(shards_find(source, &r->shards));
    TRY(shards_checksum(&r->shards, &size, &sum));
    r->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    open_shard(r);
    if (r->archive) next_header(r);
    if (r->fault && source->file && !shards_suffix_known(source->path))
        return fail(ST_FORMAT,
                    "%s: is no dataset: neither a tar, zip, IDX, CIFAR or HDF5 file, nor a folder",
                    source->path);
    if (r->fault) return fail(ST_FORMAT, "%s: %s", r->shards.text[0], r->fault);
    dataset->identity =
        str_format("archive: %zu files, %llu bytes, beginnings %016llx", r->shards.count,
                   (unsigned long long)size, (unsigned long long)sum);
    return dataset->identity ? ST_OK : ST_NOMEM;
}

#else

static enum status open_archive(struct dataset *dataset, const struct dataset_source *source) {
    (void)dataset;
    return fail(ST_FORMAT,
                "%s: is an archive (tar, zip), and libarchive was not there at build time",
                source->path);
}

static bool next_archive(struct dataset *dataset, struct dataset_item *item) {
    (void)dataset;
    (void)item;
    return false;
}

static void close_archive(void *reader) {
    (void)reader;
}

#endif

const struct dataset_form dataset_archive = {"archive", takes, open_archive, next_archive,
                                             close_archive};
