/*
 * image_heif: HEIC and AVIF through libheif: the primary picture, 8 bits. Rotation and mirroring
 * are properties of the container and libheif applies them, so an EXIF tag inside is not looked at
 * (the picture would be turned twice). Deeper pictures are brought to 8 bits by libheif.
 */
#include "datasets/image_decoders.h"

#if HAVE_HEIF

#include <stdio.h>

#include <libheif/heif.h>

static enum status heif_broken(struct heif_error error) {
    enum status st = error.code == heif_error_Memory_allocation_error ? ST_NOMEM : ST_FORMAT;
    char message[200];
    snprintf(message, sizeof message, "%s", error.message ? error.message : "unknown error");
    image_printable(message);
    return fail(st, "broken heic or avif: %s", message);
}

static enum status heif_rows(const struct heif_image *pixels, bool alpha, bool premultiplied,
                             const struct image_options *options, struct image *out) {
    struct image_samples layout = {0};
    int stride = 0;
    const uint8_t *plane = heif_image_get_plane_readonly(pixels, heif_channel_interleaved, &stride);
    int width = heif_image_get_width(pixels, heif_channel_interleaved);
    int height = heif_image_get_height(pixels, heif_channel_interleaved);
    layout.channels = layout.step = alpha ? 4 : 3;
    layout.bits = 8;
    layout.premultiplied = premultiplied;
    if (!plane || width != out->width || height != out->height)
        return fail(ST_FORMAT, "broken heic or avif: %d x %d pixels, its header says %d x %d",
                    width, height, out->width, out->height);
    for (int y = 0; y < height; y++)
        image_samples_to_rgb(&layout, options, plane + (size_t)y * (size_t)stride, width,
                             image_row(out, y));
    return ST_OK;
}

static enum status heif_picture(struct heif_image_handle *handle,
                                const struct image_options *options, struct image *out) {
    bool alpha = heif_image_handle_has_alpha_channel(handle) != 0;
    bool premultiplied = alpha && heif_image_handle_is_premultiplied_alpha(handle) != 0;
    int width = heif_image_handle_get_width(handle), height = heif_image_handle_get_height(handle);
    struct heif_image *pixels = NULL;
    struct heif_error error;
    enum status st;
    TRY(image_begin(out, width < 0 ? 0 : (uint64_t)width, height < 0 ? 0 : (uint64_t)height,
                    options));
    error =
        heif_decode_image(handle, &pixels, heif_colorspace_RGB,
                          alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, NULL);
    if (error.code != heif_error_Ok) return heif_broken(error);
    st = heif_rows(pixels, alpha, premultiplied, options, out);
    heif_image_release(pixels);
    return st;
}

enum status image_heif_decode(const uint8_t *bytes, size_t size,
                              const struct image_options *options, struct image *out) {
    struct heif_context *context = heif_context_alloc();
    struct heif_image_handle *handle = NULL;
    struct heif_error error;
    enum status st;
    if (!context) return fail(ST_NOMEM, "no memory for a heic or avif picture");
    error = heif_context_read_from_memory_without_copy(context, bytes, size, NULL);
    if (error.code == heif_error_Ok)
        error = heif_context_get_primary_image_handle(context, &handle);
    st = error.code == heif_error_Ok ? heif_picture(handle, options, out) : heif_broken(error);
    heif_image_handle_release(handle);
    heif_context_free(context);
    return st;
}

#endif
