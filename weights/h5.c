/*
 * h5: opening, creating and closing HDF5 files, types, links and groups; see h5.h. Attributes are
 * in h5_attr.c, datasets in h5_data.c, lists of them in h5_list.c, strings in h5_heap.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/h5_internal.h"

/* HDF5's words about a failure: the innermost entry of its error stack. */

static herr_t innermost(unsigned n, const H5E_error2_t *error, void *text) {
    if (n == 0 && error->desc) snprintf(text, 256, "%s", error->desc);
    return 0;
}

const char *h5_reason(void) {
    static _Thread_local char text[256];
    text[0] = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, text);
    for (char *c = text; *c; c++) {
        /* A failed system call's text goes on with times, descriptors and buffer addresses. */
        if ((unsigned char)*c < 0x20 || strncmp(c, ": time =", 8) == 0) *c = 0;
        if (!*c) break;
    }
    return text[0] ? text : "no reason given";
}

const char *h5_write_reason(const struct h5 *file) {
    static const char block[65536];
    const off_t end = lseek(file->fd, 0, SEEK_END);
    ssize_t wrote = 0;
    for (int i = 0; end >= 0 && wrote >= 0 && i < 16; i++) /* beyond what a file system kept back */
        wrote = pwrite(file->fd, block, sizeof block, end + i * (off_t)sizeof block);
    return wrote < 0 ? strerror(errno) : h5_reason();
}

/*
 * Reads a string reference as it is stored: the source and the destination of this "conversion" are
 * the same 16 bytes.
 */
static herr_t keep_reference(hid_t from, hid_t to, H5T_cdata_t *conversion, size_t count,
                             size_t stride, size_t bkg_stride, void *buf, void *bkg, hid_t plist) {
    (void)from, (void)count, (void)stride, (void)bkg_stride, (void)buf, (void)bkg, (void)plist;
    if (conversion->command != H5T_CONV_INIT) return 0;
    conversion->need_bkg = H5T_BKG_NO;
    return H5Tget_size(to) == H5_REFERENCE ? 0 : -1;
}

static enum status make_types(struct h5 *file) {
    static atomic_bool registered;
    signed char no = 0, yes = 1;
    file->half = H5Tcopy(H5T_IEEE_F32LE);
    file->boolean = H5Tenum_create(H5T_STD_I8LE);
    file->text = H5Tcopy(H5T_C_S1);
    file->reference = H5Tcreate(H5T_OPAQUE, H5_REFERENCE);
    if (file->half < 0 || file->boolean < 0 || file->text < 0 || file->reference < 0 ||
        H5Tset_fields(file->half, 15, 10, 5, 0, 10) < 0 || H5Tset_size(file->half, 2) < 0 ||
        H5Tset_ebias(file->half, 15) < 0 || H5Tenum_insert(file->boolean, "FALSE", &no) < 0 ||
        H5Tenum_insert(file->boolean, "TRUE", &yes) < 0 ||
        H5Tset_size(file->text, H5T_VARIABLE) < 0 || H5Tset_cset(file->text, H5T_CSET_UTF8) < 0)
        return fail(ST_NOMEM, "%s: HDF5 made no types (%s)", file->name, h5_reason());
    if (!atomic_exchange(&registered, true) &&
        H5Tregister(H5T_PERS_SOFT, "raw string reference", file->text, file->reference,
                    keep_reference) < 0)
        return fail(ST_NOMEM, "%s: HDF5 took no conversion (%s)", file->name, h5_reason());
    return ST_OK;
}

hid_t h5_type(const struct h5 *file, enum dtype dtype) {
    switch (dtype) {
    case DT_F64: return H5T_IEEE_F64LE;
    case DT_F32: return H5T_IEEE_F32LE;
    case DT_F16: return file->half;
    case DT_BF16: return H5T_STD_U16LE;
    case DT_I64: return H5T_STD_I64LE;
    case DT_I32: return H5T_STD_I32LE;
    case DT_I16: return H5T_STD_I16LE;
    case DT_I8: return H5T_STD_I8LE;
    case DT_U8: return H5T_STD_U8LE;
    case DT_BOOL: return file->boolean;
    case DT_OTHER: break;
    }
    return -1;
}

/* Both byte orders are taken: HDF5 swaps them on reading. DT_BF16 here means: 16 bits unsigned. */
enum dtype h5_dtype(const struct h5 *file, hid_t type) {
    enum dtype found = DT_OTHER;
    H5T_class_t class = H5Tget_class(type);
    hid_t ordered;
    if (class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM) return DT_OTHER;
    ordered = H5Tcopy(type);
    if (ordered < 0) return DT_OTHER;
    if (class == H5T_ENUM || H5Tset_order(ordered, H5T_ORDER_LE) >= 0) {
        for (int i = 0; i < DT_OTHER && found == DT_OTHER; i++) {
            if (H5Tequal(ordered, h5_type(file, (enum dtype)i)) > 0) found = (enum dtype)i;
        }
    }
    H5Tclose(ordered);
    return found;
}

const char *h5_class_name(hid_t type) {
    switch (H5Tget_class(type)) {
    case H5T_INTEGER: return "an integer";
    case H5T_FLOAT: return "a floating-point number";
    case H5T_STRING: return "a string";
    case H5T_ENUM: return "an enumeration";
    case H5T_COMPOUND: return "a compound";
    case H5T_REFERENCE: return "an object reference";
    case H5T_VLEN: return "a variable-length list";
    default: return "of an unknown type";
    }
}

bool h5_is_text(hid_t type) {
    return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0;
}

/* What a file that is not HDF5 is, by its first bytes. */
static const char *kind_of(const uint8_t *head, size_t size) {
    static const struct {
        size_t offset, size;
        const char *magic, *kind;
    } kinds[] = {
        {0, 4, "PK\3\4", "a zip archive"},
        {0, 23, "version https://git-lfs", "a Git LFS pointer in place of the file (git lfs pull)"},
        {8, 1, "{", "a safetensors file; see 'vitrine convert --help'"},
        {0, 1, "\x80", "a Python pickle"},
        {0, 2, "\x1f\x8b", "compressed by gzip"},
        {0, 3, "CDF", "a classic netCDF file"},
        {0, 4, "\x89PNG", "a picture"},
        {0, 3, "\xff\xd8\xff", "a picture"},
        {0, 1, "<", "an HTML page, as of a failed download"},
    };
    size_t start = 0;
    if (size == 0) return "empty";
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (size >= kinds[i].offset + kinds[i].size &&
            memcmp(head + kinds[i].offset, kinds[i].magic, kinds[i].size) == 0)
            return kinds[i].kind;
    }
    while (start < size && strchr(" \t\r\n", head[start]) && head[start])
        start++;
    return start < size && head[start] == '<' ? "an HTML page, as of a failed download"
                                              : "of an unknown kind";
}

/* The superblock lies at 0 or at a power of two from 512 (the format specification, II.A). */
static enum status find_superblock(struct h5 *file) {
    uint8_t head[64] = {0};
    size_t size = file->size < sizeof head ? (size_t)file->size : sizeof head;
    for (uint64_t at = 0; at + 8 <= file->size; at = at ? at * 2 : 512) {
        uint8_t magic[8];
        TRY(h5_bytes(file, "/", at, magic, sizeof magic));
        if (memcmp(magic, "\x89HDF\r\n\x1a\n", 8) == 0) {
            file->base = at;
            return ST_OK;
        }
    }
    TRY(h5_bytes(file, "/", 0, head, size));
    return fail(ST_FORMAT, "%s: is %s, expected an HDF5 file", file->name, kind_of(head, size));
}

enum status h5_bytes(struct h5 *file, const char *object, uint64_t offset, void *dst, size_t size) {
    uint64_t at = file->base + offset;
    if (offset > file->size || at > file->size || size > file->size - at)
        return fail(ST_FORMAT, "%s: %s: points behind the end of the file", file->name, object);
    if (file->image) {
        memcpy(dst, file->image + at, size);
        return ST_OK;
    }
    if (at < file->window_at || at + size > file->window_at + file->window_size) {
        bool small = size <= sizeof file->window;
        size_t want = small ? sizeof file->window : size;
        ssize_t got;
        do
            got = pread(file->fd, small ? file->window : dst, want, (off_t)at);
        while (got < 0 && errno == EINTR);
        if (got < 0 || (size_t)got < size)
            return fail(ST_IO, "%s: %s: %s", file->name, object,
                        got < 0 ? strerror(errno) : "the file became shorter");
        if (!small) return ST_OK;
        file->window_at = at;
        file->window_size = (size_t)got;
    }
    memcpy(dst, file->window + (at - file->window_at), size);
    return ST_OK;
}

bool h5_quiet(void) {
    return H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0;
}

enum status h5_check_end(const struct h5 *file) {
    struct stat info;
    if (file->fd < 0) return ST_OK;
    if (fstat(file->fd, &info) != 0) return fail(ST_IO, "%s: %s", file->name, strerror(errno));
    if ((uint64_t)info.st_size >= file->size) return ST_OK;
    return fail(ST_IO, "%s: became shorter while it was read: %lld bytes, %llu at the start",
                file->name, (long long)info.st_size, (unsigned long long)file->size);
}

/*
 * A zeroed h5 of that name; HDF5's error printing off and no plugins: set each time, others may
 * differ.
 */
static enum status start(const char *name, struct h5 **out) {
    struct h5 *file = mem_zalloc(1, sizeof *file);
    if (!file) return ST_NOMEM;
    file->id = file->half = file->boolean = file->text = file->reference = -1;
    file->fd = -1;
    file->name = str_copy(name);
    *out = file;
    if (!file->name) return ST_NOMEM;
    /* At exit HDF5 would close once more what a full disk kept from closing, and crash over it. */
    (void)H5dont_atexit();
    if (H5open() < 0 || !h5_quiet() || H5PLset_loading_state(0) < 0)
        return fail(ST_NOMEM, "%s: the HDF5 library does not start", name);
    return make_types(file);
}

/* Releases everything but the HDF5 file itself. */
static void discard(struct h5 **file) {
    if (!*file) return;
    if ((*file)->half >= 0) H5Tclose((*file)->half);
    if ((*file)->boolean >= 0) H5Tclose((*file)->boolean);
    if ((*file)->text >= 0) H5Tclose((*file)->text);
    if ((*file)->reference >= 0) H5Tclose((*file)->reference);
    if ((*file)->fd >= 0) close((*file)->fd);
    mem_free((*file)->name);
    mem_free(*file);
    *file = NULL;
}

/* Opens the HDF5 file; string references must have the 16 bytes of 8-byte addresses. */
static enum status open_id(struct h5 *file, const char *path, hid_t access) {
    size_t offsets = 0, lengths = 0;
    hid_t creation;
    bool sized;
    file->heap_steps = 8 * file->size + 65536;
    if (H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0 ||
        (file->id = H5Fopen(path, H5F_ACC_RDONLY, access)) < 0)
        return fail(ST_FORMAT, "%s: a damaged HDF5 file (%s)", file->name, h5_reason());
    creation = H5Fget_create_plist(file->id);
    sized = creation >= 0 && H5Pget_sizes(creation, &offsets, &lengths) >= 0;
    if (creation >= 0) H5Pclose(creation);
    if (!sized || offsets != 8 || lengths != 8)
        return fail(ST_FORMAT, "%s: HDF5 addresses of %zu bytes, expected 8", file->name, offsets);
    return ST_OK;
}

static enum status open_descriptor(struct h5 *file, const char *path) {
    struct stat info;
    /* Not blocking: a named pipe must be refused, not waited for. */
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0 || fstat(file->fd, &info) != 0)
        return fail(ST_IO, "%s: %s", file->name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return fail(ST_IO, "%s: is %s, expected a file", file->name,
                    S_ISDIR(info.st_mode) ? "a directory" : "no regular file");
    file->size = (uint64_t)info.st_size;
    return ST_OK;
}

enum status h5_open(const char *path, struct h5 **out) {
    struct h5 *file = NULL;
    hid_t access = -1;
    enum status st;
    *out = NULL;
    TRY_OUT(start(path, &file));
    TRY_OUT(open_descriptor(file, path));
    TRY_OUT(find_superblock(file));
    access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7)
    /* Locks fail on some network file systems, and a reader does not need one. */
    if (access >= 0) H5Pset_file_locking(access, false, true);
#endif
    TRY_OUT(open_id(file, path, access));
    *out = file;
    file = NULL;
out:
    if (access >= 0) H5Pclose(access);
    if (file && file->id >= 0) H5Fclose(file->id);
    discard(&file);
    return st;
}

/* HDF5 asks for a buffer of the image's size and copies into it: it is handed the image, thrice. */

static void *image_malloc(size_t size, H5FD_file_image_op_t op, void *file) {
    (void)size, (void)op;
    return (void *)(uintptr_t)((struct h5 *)file)->image;
}

static void *image_memcpy(void *dst, const void *src, size_t size, H5FD_file_image_op_t op,
                          void *file) {
    (void)src, (void)size, (void)op, (void)file;
    return dst;
}

static void *image_realloc(void *ptr, size_t size, H5FD_file_image_op_t op, void *file) {
    (void)ptr, (void)size, (void)op, (void)file;
    return NULL;
}

static herr_t image_free(void *ptr, H5FD_file_image_op_t op, void *file) {
    (void)ptr, (void)op, (void)file;
    return 0;
}

static void *image_owner(void *file) {
    return file;
}

static herr_t image_owner_free(void *file) {
    (void)file;
    return 0;
}

enum status h5_open_memory(const void *bytes, size_t size, const char *name, struct h5 **out) {
    static atomic_ulong opened; /* HDF5 takes images of equal names for one file */
    H5FD_file_image_callbacks_t calls = {image_malloc, image_memcpy,     image_realloc, image_free,
                                         image_owner,  image_owner_free, NULL};
    char unique[64];
    struct h5 *file = NULL;
    hid_t access = -1;
    enum status st;
    *out = NULL;
    TRY_OUT(start(name, &file));
    file->image = bytes;
    file->size = size;
    TRY_OUT(find_superblock(file));
    calls.udata = file;
    access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0 || H5Pset_fapl_core(access, 65536, false) < 0 ||
        H5Pset_file_image_callbacks(access, &calls) < 0 ||
        H5Pset_file_image(access, (void *)(uintptr_t)bytes, size) < 0) {
        st = fail(ST_NOMEM, "%s: HDF5 takes no file in memory (%s)", name, h5_reason());
        goto out;
    }
    snprintf(unique, sizeof unique, "memory-%lu", atomic_fetch_add(&opened, 1));
    TRY_OUT(open_id(file, unique, access));
    *out = file;
    file = NULL;
out:
    if (access >= 0) H5Pclose(access);
    if (file && file->id >= 0) H5Fclose(file->id);
    discard(&file);
    return st;
}

enum status h5_create(const char *path, struct h5 **out) {
    struct h5 *file = NULL;
    hid_t access = -1;
    enum status st;
    *out = NULL;
    TRY_OUT(start(path, &file));
    /* HDF5's own refusal does not say why; this one does, and the descriptor serves h5_bytes. */
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        st = fail(ST_IO, "%s: %s", path, strerror(errno));
        goto out;
    }
    file->writable = true;
    access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7)
    if (access >= 0) H5Pset_file_locking(access, false, true);
#endif
    if (access < 0 || H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0 ||
        H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) < 0 ||
        (file->id = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)) < 0) {
        st = fail(ST_IO, "%s: cannot be created (%s)", path, h5_reason());
        goto out;
    }
    *out = file;
    file = NULL;
out:
    if (access >= 0) H5Pclose(access);
    discard(&file);
    return st;
}

enum status h5_close(struct h5 **file) {
    enum status st = ST_OK;
    if (!*file) return ST_OK;
    (void)h5_quiet();
    if ((*file)->writable && H5Fflush((*file)->id, H5F_SCOPE_LOCAL) < 0)
        st = fail(ST_IO, "%s: cannot be written (%s)", (*file)->name, h5_write_reason(*file));
    if (H5Fclose((*file)->id) < 0 && st == ST_OK)
        st = fail(ST_IO, "%s: cannot be closed (%s)", (*file)->name, h5_reason());
    discard(file);
    return st;
}

const char *h5_name(const struct h5 *file) {
    return file->name;
}

/*
 * Walks the links of an absolute path without following any but hard ones; *found says whether the
 * last exists. A soft link may lead into another file by way of an external one, so both are
 * refused.
 */
static enum status walk(struct h5 *file, const char *path, bool *found) {
    char prefix[2 * H5_MAX_NAME + 4];
    size_t size = strlen(path);
    *found = false;
    (void)h5_quiet();
    if (path[0] != '/' || size >= sizeof prefix)
        return fail(ST_USAGE, "%s: no path of an object: %.80s", file->name, path);
    for (size_t end = 1; end <= size; end++) {
        H5L_info_t link;
        if (end == 1 && size == 1) break;
        if (path[end] != '/' && path[end] != 0) continue;
        memcpy(prefix, path, end);
        prefix[end] = 0;
        if (H5Lexists(file->id, prefix, H5P_DEFAULT) <= 0) return ST_OK;
        if (H5Lget_info(file->id, prefix, &link, H5P_DEFAULT) < 0)
            return fail(ST_FORMAT, "%s: %s: a damaged link (%s)", file->name, prefix, h5_reason());
        if (link.type != H5L_TYPE_HARD)
            return fail(ST_FORMAT, "%s: %s: is %s link, expected the object itself", file->name,
                        prefix,
                        link.type == H5L_TYPE_SOFT       ? "a soft"
                        : link.type == H5L_TYPE_EXTERNAL ? "an external"
                                                         : "a user-defined");
    }
    *found = true;
    return ST_OK;
}

enum status h5_open_object(struct h5 *file, const char *path, enum status missing, hid_t *out) {
    bool found;
    TRY(walk(file, path, &found));
    if (!found) return fail(missing, "%s: %s: is missing", file->name, path);
    *out = H5Oopen(file->id, path, H5P_DEFAULT);
    if (*out < 0)
        return fail(ST_FORMAT, "%s: %s: cannot be opened (%s)", file->name, path, h5_reason());
    return ST_OK;
}

bool h5_has(struct h5 *file, const char *object) {
    bool found;
    /* A link that is refused is there: opening it will say what is wrong. */
    return walk(file, object, &found) != ST_OK || found;
}

enum status h5_make_group(struct h5 *file, const char *group) {
    hid_t create, id;
    if (h5_has(file, group)) return ST_OK;
    create = H5Pcreate(H5P_LINK_CREATE);
    if (create < 0) return fail(ST_NOMEM, "%s: %s: %s", file->name, group, h5_reason());
    H5Pset_create_intermediate_group(create, 1);
    id = H5Gcreate2(file->id, group, create, H5P_DEFAULT, H5P_DEFAULT);
    H5Pclose(create);
    if (id < 0) return fail(ST_IO, "%s: %s: cannot be made (%s)", file->name, group, h5_reason());
    H5Gclose(id);
    return ST_OK;
}

enum status h5_names_add(struct h5 *file, const char *object, struct h5_names *list,
                         const char *name) {
    void *names = list->names;
    if (list->count >= H5_MAX_LIST)
        return fail(ST_FORMAT, "%s: %s: more than %d entries", file->name, object, H5_MAX_LIST);
    if (!h5_name_ok(name))
        return fail(ST_FORMAT,
                    "%s: %s: a name of %zu bytes, expected at most %d of printable UTF-8",
                    file->name, object, strlen(name), H5_MAX_NAME);
    TRY(mem_grow(&names, &list->capacity, list->count + 1, sizeof *list->names));
    list->names = names;
    list->names[list->count] = str_copy(name);
    if (!list->names[list->count]) return ST_NOMEM;
    list->count++;
    return ST_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void h5_names_sort(struct h5_names *list) {
    if (list->count > 1) qsort(list->names, list->count, sizeof *list->names, by_name);
}

void h5_free_names(char **names, size_t count) {
    for (size_t i = 0; i < count && names; i++)
        mem_free(names[i]);
    mem_free(names);
}
