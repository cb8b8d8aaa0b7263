/*
 * attention_files: what `vitrine attention --save` writes of an image. A kind is a row of a table:
 * its name and a function.
 */
#ifndef TOOLS_ATTENTION_FILES_H
#define TOOLS_ATTENTION_FILES_H

#include "tools/attention.h"
#include "tools/heat_map.h"

struct attention_page;
struct attention_stats;
struct faithfulness;
struct picture_queue;

/* How pictures are drawn. */
struct attention_look {
    enum colormap colormap;
    enum heat_filter filter; /* from cells to pixels */
    bool colorbar;
    double opacity; /* of the map over the picture */
    double mass;    /* kind mask: the share of a map that is kept */
};

struct attention_look attention_look_defaults(void);

/* A line on stderr: what a pass takes beside the model, `kept` bytes of `layers` layers. */
void attention_tell_memory(const struct attention_maps *maps, size_t kept, int layers);

/* An image of the pass that has ended. */
struct attention_file {
    struct attention_maps *maps;
    int image; /* of the pass */
    const struct pipeline_item *item;
    const char *stem;    /* FOLDER/NAME.<method>, in front of the kind's suffix */
    const char *model;   /* as it was asked for */
    const char *options; /* attention_options_text */
    const struct attention_look *look;
    const uint8_t *pixels;               /* what the model saw, (height, width, 3) */
    struct picture_queue *pictures;      /* where PNG files go; written by its owner */
    struct attention_page *page;         /* kind html (attention_page.h) */
    const struct attention_stats *stats; /* kind stats (attention_stats.h) */
    struct faithfulness *faithfulness;   /* the kind of this name */
};

struct attention_kind {
    const char *name; /* of --save, and the suffix */
    enum status (*save)(const struct attention_file *file);
    bool picture; /* wants the decoded picture in file->item->image */
    bool patches; /* has no meaning for --query all */
};
extern const struct attention_kind attention_kinds[]; /* ends with name NULL */

/* A set of kinds: bit k for attention_kinds[k]. Rows of tools/cli.h: "npy,h5". */
enum status attention_parse_kinds(const char *value, void *field) MUST_CHECK;
void attention_show_kinds(const void *field, char *text, size_t size);

/* "overlay" of a rollout, "grid" of raw maps. */
unsigned attention_kinds_default(enum attention_method method);
/* The kind of this name as a set. */
unsigned attention_kind_named(const char *name);
bool attention_kinds_picture(unsigned kinds); /* whether one of them wants the decoded picture */
/* ST_USAGE: a kind that this query or method has not, or two that want stdout. */
enum status attention_kinds_check(unsigned kinds,
                                  const struct attention_options *options) MUST_CHECK;

/* Writes every kind of the set; of pictures some may wait in file->pictures. */
enum status attention_save(const struct attention_file *file, unsigned kinds) MUST_CHECK;

#endif
