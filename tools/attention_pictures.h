/*
 * attention_pictures: the pictures of `vitrine attention --save`: maps laid over the picture, maps
 * alone, all layers and heads side by side, and the part that holds a share of a map. Rows of the
 * table in attention_files.c.
 */
#ifndef TOOLS_ATTENTION_PICTURES_H
#define TOOLS_ATTENTION_PICTURES_H

#include "tools/attention_files.h"

/*
 * Where the cells of a map (rows, columns) of a layer (-1: of a rollout) lie on the file's picture,
 * drawn at width x height.
 */
struct grid_place attention_pictures_place(const struct attention_file *file, int layer, int rows,
                                           int columns, int width, int height);

/*
 * A picture a map: STEM.overlay.png; of several maps STEM.overlay.layer3.head0.png (no head where
 * they are fused), of several classes STEM.overlay.class281.png. Pictures whose longer side is below
 * 256 pixels are enlarged by a whole factor.
 */
enum status attention_save_overlay(const struct attention_file *file) MUST_CHECK;
/* The same without the picture; with --query all a matrix, queries downward. */
enum status attention_save_map(const struct attention_file *file) MUST_CHECK;
/* Layers downward, heads across, over what the model saw: STEM.grid.png, of a Swin one a stage. */
enum status attention_save_grid(const struct attention_file *file) MUST_CHECK;
/*
 * The cells that hold look.mass of a map: the rest of the picture dark, a frame around all; and a
 * line on stdout: path, class (gradient), layer and head (raw), the frame in pixels of the picture,
 * the cells.
 */
enum status attention_save_mask(const struct attention_file *file) MUST_CHECK;

#endif
