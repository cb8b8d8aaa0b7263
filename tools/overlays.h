/*
 * overlays: `vitrine classify --overlay`: of each image FOLDER/NAME.rollout.overlay.png, as
 * `vitrine attention` makes it with its defaults, out of the pass that gives the predictions.
 *
 *   overlays_open -> for each batch: model_forward with maps.capture, overlays_save image by image,
 *   overlays_write -> overlays_release
 */
#ifndef TOOLS_OVERLAYS_H
#define TOOLS_OVERLAYS_H

#include "tools/attention_files.h"
#include "tools/output_names.h"
#include "tools/picture_queue.h"
#include "tools/run.h"

struct overlays {
    struct attention_maps maps;
    struct attention_look look;
    struct output_names names;
    struct picture_queue pictures;
    const char *folder, *model; /* the caller's */
};

/*
 * Makes the folder, where it is not there, and unless -q tells the memory. The model outlives the
 * struct, which stays where it is. Errors of attention_open and ST_IO; *out is then released.
 */
enum status overlays_open(struct overlays *out, const char *folder, const struct run_options *run,
                          const struct inputs *inputs, const struct model *model) MUST_CHECK;
void overlays_release(struct overlays *overlays); /* works on a zeroed struct, and twice */

/*
 * Image `i` of the pass; the item holds its decoded picture. ST_FORMAT: of this image no map can be
 * made; ST_IO, ST_NOMEM. Some may wait until overlays_write.
 */
enum status overlays_save(struct overlays *overlays, const struct pipeline_item *item,
                          int i) MUST_CHECK;
enum status overlays_write(struct overlays *overlays) MUST_CHECK;

#endif
