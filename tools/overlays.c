/* overlays: see overlays.h. */
#include "tools/overlays.h"

#include "tools/output.h"

static enum status open_all(struct overlays *o, const struct run_options *run,
                            const struct inputs *inputs, const struct model *model) {
    const struct attention_options options = attention_defaults();
    char *path = str_copy(o->folder);
    enum status st = path ? output_make_folders(path) : ST_NOMEM;
    mem_free(path);
    if (st == ST_OK) st = run_spare_inputs(run, inputs);
    if (st == ST_OK) st = output_names_open(inputs, &o->names);
    if (st == ST_OK) st = picture_queue_open(&o->pictures, run_threads(run));
    return st == ST_OK ? attention_open(&o->maps, model, &options) : st;
}

enum status overlays_open(struct overlays *out, const char *folder, const struct run_options *run,
                          const struct inputs *inputs, const struct model *model) {
    enum status st;
    *out =
        (struct overlays){.look = attention_look_defaults(), .folder = folder, .model = run->model};
    st = open_all(out, run, inputs, model);
    if (st != ST_OK)
        overlays_release(out);
    else if (!run->quiet)
        attention_tell_memory(&out->maps, out->maps.kept_bytes, out->maps.count);
    return st;
}

void overlays_release(struct overlays *o) {
    attention_release(&o->maps);
    picture_queue_release(&o->pictures);
    output_names_release(&o->names);
    *o = (struct overlays){0};
}

enum status overlays_save(struct overlays *o, const struct pipeline_item *item, int i) {
    char *stem = str_format("%s/%s.%s", o->folder, o->names.name[item->number],
                            attention_methods[ATTENTION_ROLLOUT]);
    const struct attention_file file = {.maps = &o->maps,
                                        .image = i,
                                        .item = item,
                                        .stem = stem,
                                        .model = o->model,
                                        .look = &o->look,
                                        .pictures = &o->pictures};
    enum status st =
        stem ? attention_save(&file, attention_kinds_default(ATTENTION_ROLLOUT)) : ST_NOMEM;
    mem_free(stem);
    return st;
}

enum status overlays_write(struct overlays *o) {
    return picture_queue_write(&o->pictures);
}
