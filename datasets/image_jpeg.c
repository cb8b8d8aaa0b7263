/*
 * image_jpeg: JPEG through libjpeg-turbo, the same bytes as Pillow: accurate integer IDCT, smooth
 * ("fancy") chroma upsampling, CMYK and YCCK always taken as inverted (Adobe's convention, which
 * Pillow assumes with and without Adobe's marker).
 *
 * What libjpeg only warns of: a file that ends early or whose compressed data is corrupt is an
 * error here (Pillow refuses the first and shows grey or garbage for the second); extraneous bytes,
 * odd version numbers and unusual markers are harmless, and so is anything behind the last row.
 */
#include "datasets/image_decoders.h"

#if HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>

/*
 * Every scan of a progressive file visits the whole picture, some 2 ns a pixel; real files have
 * about ten. Beyond 20, scans times pixels are limited too (to some seconds).
 */
#define SCANS_MAX       500
#define SCANS_FREE      20
#define SCAN_PIXELS_MAX 2e9

struct jpeg_reader {
    struct jpeg_error_mgr errors; /* first, so that libjpeg's pointer to it is a pointer to us */
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct jpeg;
    jmp_buf escape;
    uint8_t *row;  /* (width, components) where the output is not RGB */
    bool complete; /* all rows are out */
    char reason[JMSG_LENGTH_MAX];
};

_Noreturn static void on_error(j_common_ptr jpeg) {
    struct jpeg_reader *reader = (struct jpeg_reader *)jpeg->err;
    reader->errors.format_message(jpeg, reader->reason);
    longjmp(reader->escape, 1);
}

/* level -1 is a warning; others are traces. */
static void on_message(j_common_ptr jpeg, int level) {
    struct jpeg_reader *reader = (struct jpeg_reader *)jpeg->err;
    if (level >= 0 || reader->complete) return;
    switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM: return;
    default: on_error(jpeg);
    }
}

static void on_output(j_common_ptr jpeg) {
    (void)jpeg; /* libjpeg's own would print */
}

static void on_progress(j_common_ptr jpeg) {
    struct jpeg_reader *reader = (struct jpeg_reader *)jpeg->err;
    int scans = reader->jpeg.input_scan_number;
    double pixels = (double)reader->jpeg.image_width * reader->jpeg.image_height;
    if (!jpeg->is_decompressor || scans <= SCANS_FREE ||
        (scans <= SCANS_MAX && scans * pixels <= SCAN_PIXELS_MAX))
        return;
    snprintf(reader->reason, sizeof reader->reason,
             "%d scans of %ux%u pixels, more than a real file has", scans, reader->jpeg.image_width,
             reader->jpeg.image_height);
    longjmp(reader->escape, 1);
}

static void reader_open(struct jpeg_reader *reader, const uint8_t *bytes, size_t size) {
    reader->jpeg.err = jpeg_std_error(&reader->errors);
    reader->errors.error_exit = on_error;
    reader->errors.emit_message = on_message;
    reader->errors.output_message = on_output;
    reader->progress.progress_monitor = on_progress;
    jpeg_create_decompress(&reader->jpeg);
    reader->jpeg.progress = &reader->progress;
    jpeg_mem_src(&reader->jpeg, bytes, (unsigned long)size);
}

/* Header, limits, colour space. */
static enum status reader_header(struct jpeg_reader *reader, const struct image_options *options,
                                 struct image *out) {
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    int components;
    jpeg_read_header(jpeg, TRUE);
    components = jpeg->num_components;
    if (components != 1 && components != 3 && components != 4)
        return fail(ST_FORMAT, "a jpeg of %d components, want 1 (grey), 3 (colour) or 4 (CMYK)",
                    components);
    TRY(image_begin(out, jpeg->image_width, jpeg->image_height, options));
    jpeg->out_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
    if (components != 3) {
        reader->row = mem_zalloc(jpeg->image_width, (size_t)components);
        if (!reader->row) return ST_NOMEM;
    }
    return ST_OK;
}

static void reader_rows(struct jpeg_reader *reader, const struct image_options *options,
                        struct image *out) {
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    int components = jpeg->num_components;
    struct image_samples layout = {components,      components,      8,
                                   components == 4, components == 4, false};
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        int y = (int)jpeg->output_scanline;
        JSAMPROW row = reader->row ? reader->row : image_row(out, y);
        jpeg_read_scanlines(jpeg, &row, 1);
        if (reader->row)
            image_samples_to_rgb(&layout, options, reader->row, out->width, image_row(out, y));
    }
    reader->complete = true;
}

enum status image_jpeg_decode(const uint8_t *bytes, size_t size,
                              const struct image_options *options, struct image *out) {
    struct jpeg_reader *reader = mem_zalloc(1, sizeof *reader);
    enum status st;
    if (!reader) return ST_NOMEM;
    out->orientation = image_exif_jpeg(bytes, size);
    /* Everything that changes behind setjmp lives in *reader and *out. */
    if (setjmp(reader->escape) == 0) {
        reader_open(reader, bytes, size);
        st = reader_header(reader, options, out);
        if (st == ST_OK) reader_rows(reader, options, out);
    } else {
        st = fail(reader->errors.msg_code == JERR_OUT_OF_MEMORY ? ST_NOMEM : ST_FORMAT,
                  "broken jpeg: %s", reader->reason);
    }
    jpeg_destroy_decompress(&reader->jpeg);
    mem_free(reader->row);
    mem_free(reader);
    return st;
}

#endif
