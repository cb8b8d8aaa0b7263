/*
 * keras: the weight files of Keras and of what was built on it, which are HDF5:
 *
 *   legacy        .h5 of Keras 2 and tf.keras, and of Keras 3 by that name; transformers'
 *                 tf_model.h5: a group a layer, at the root or in /model_weights
 *   .weights.h5   of Keras 3: a group an object of the model, its variables in vars/0, vars/1, ...
 *   .keras        a zip with model.weights.h5 in it
 *
 * Names become paths below the weights' root. In legacy files they begin with the layer's name once
 * ("vit/tf_vi_t_model/vit/embeddings/cls_token:0" is "vit/embeddings/cls_token"). Of Keras' own
 * config.json (in a .keras, beside a preset's weights) only what names and shapes do not say is
 * looked at: the norms' eps, how a ViT's classifier pools, and how keras_hub's image converter
 * prepares pictures (which a preset has in files of its own).
 */
#ifndef WEIGHTS_KERAS_H
#define WEIGHTS_KERAS_H

#include "weights/checkpoint.h"

/* Values stay in the mapping, or where a deflated .keras was unpacked to. */
extern const struct container keras_h5;
enum status keras_parse_archive(struct checkpoint *out) MUST_CHECK;

/* What an HDF5 file is that keras_h5 does not take. */
const char *keras_foreign(const uint8_t *bytes, size_t size);

#endif
