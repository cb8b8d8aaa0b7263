/*
 * cuda_pixels: the pixels' way to the device, beside the computation.
 *
 *   host -> pinned slot -> (copy stream) -> device slot -> (compute stream) -> fixed -> embedding
 *
 * Records read one fixed place, so that a graph serves every pass; the last step is a copy inside
 * of the device, some microseconds. Three slots: being embedded, under way, to come.
 * `uploaded` orders the compute stream and the pinned memory behind the copy, `consumed` orders the
 * next copy behind the computation that needed the slot.
 */
#include "kernels/cuda_backend.cuh"

static void release_slot(struct cuda *cuda, struct pixel_slot *slot) {
    if (slot->host != NULL) (void)cudaFreeHost(slot->host);
    cuda_free(cuda, slot->device);
    slot->host = slot->device = NULL;
}

enum status cuda_pixels_reserve(struct cuda *cuda) {
    struct cuda_pixels *p = &cuda->pixels;
    static const char what[] = "the pixels' memory";
    if (p->wanted <= p->capacity) return ST_OK;
    CUDA_TRY(what, cudaSetDevice(cuda->device));
    CUDA_TRY(what, cudaStreamSynchronize(cuda->copy));
    TRY(cuda_wait(cuda));
    cuda_forget_graphs(cuda);
    p->capacity = 0;
    p->staged = NULL;
    cuda_free(cuda, p->fixed);
    p->fixed = NULL;
    TRY(cuda_alloc(cuda, what, p->wanted, (void **)&p->fixed));
    for (int i = 0; i < CUDA_SLOTS; i++) {
        struct pixel_slot *slot = &p->slots[i];
        release_slot(cuda, slot);
        TRY(cuda_alloc(cuda, what, p->wanted, (void **)&slot->device));
        CUDA_TRY(what, cudaMallocHost((void **)&slot->host, p->wanted));
        if (slot->uploaded == NULL)
            CUDA_TRY(what, cudaEventCreateWithFlags(&slot->uploaded, cudaEventDisableTiming));
        if (slot->consumed == NULL)
            CUDA_TRY(what, cudaEventCreateWithFlags(&slot->consumed, cudaEventDisableTiming));
    }
    p->capacity = p->wanted;
    return ST_OK;
}

void cuda_pixels_release(struct cuda *cuda) {
    for (int i = 0; i < CUDA_SLOTS; i++) {
        struct pixel_slot *slot = &cuda->pixels.slots[i];
        release_slot(cuda, slot);
        if (slot->uploaded != NULL) (void)cudaEventDestroy(slot->uploaded);
        if (slot->consumed != NULL) (void)cudaEventDestroy(slot->consumed);
    }
    cuda_free(cuda, cuda->pixels.fixed);
    memset(&cuda->pixels, 0, sizeof cuda->pixels);
}

/* Starts the upload into the next slot. */
static enum status upload(struct cuda *cuda, const uint8_t *pixels, size_t bytes, int *index) {
    struct cuda_pixels *p = &cuda->pixels;
    struct pixel_slot *slot = &p->slots[p->next];
    static const char what[] = "the pixels' upload";
    *index = p->next;
    p->next = (p->next + 1) % CUDA_SLOTS;
    CUDA_TRY(what, cudaEventSynchronize(slot->uploaded)); /* the pinned memory is free again */
    memcpy(slot->host, pixels, bytes);
    CUDA_TRY(what, cudaStreamWaitEvent(cuda->copy, slot->consumed, 0));
    CUDA_TRY(what,
             cudaMemcpyAsync(slot->device, slot->host, bytes, cudaMemcpyHostToDevice, cuda->copy));
    CUDA_TRY(what, cudaEventRecord(slot->uploaded, cuda->copy));
    return ST_OK;
}

enum status cuda_pixels_before(struct cuda *cuda) {
    struct cuda_pixels *p = &cuda->pixels;
    static const char what[] = "the pixels' upload";
    int index = p->staged_slot;
    if (!cuda->list.embeds) return ST_OK;
    if (p->hint == p->pixels) p->hint = NULL; /* announced for this pass */
    if (p->staged != p->pixels || p->staged_bytes != p->pixel_bytes)
        TRY(upload(cuda, p->pixels, p->pixel_bytes, &index));
    p->staged = NULL; /* used, or announced for a pass that was another */
    CUDA_TRY(what, cudaStreamWaitEvent(cuda->compute, p->slots[index].uploaded, 0));
    CUDA_TRY(what, cudaMemcpyAsync(p->fixed, p->slots[index].device, p->pixel_bytes,
                                   cudaMemcpyDeviceToDevice, cuda->compute));
    CUDA_TRY(what, cudaEventRecord(p->slots[index].consumed, cuda->compute));
    return ST_OK;
}

enum status cuda_pixels_after(struct cuda *cuda) {
    struct cuda_pixels *p = &cuda->pixels;
    const uint8_t *pixels = p->hint;
    p->hint = NULL;
    if (pixels == NULL || p->hint_bytes > p->capacity) return ST_OK;
    TRY(upload(cuda, pixels, p->hint_bytes, &p->staged_slot));
    p->staged = pixels;
    p->staged_bytes = p->hint_bytes;
    return ST_OK;
}

void cuda_stage(struct backend *be, const uint8_t *pixels, size_t bytes) {
    struct cuda_pixels *p = &cuda_of(be)->pixels;
    p->hint = pixels;
    p->hint_bytes = bytes;
    if (p->staged == pixels) p->staged = NULL; /* other pixels in the same place */
}
