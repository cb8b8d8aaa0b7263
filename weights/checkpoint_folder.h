/* checkpoint_folder: the weights in a folder by their usual names; private to checkpoint*.c. */
#ifndef WEIGHTS_CHECKPOINT_FOLDER_H
#define WEIGHTS_CHECKPOINT_FOLDER_H

#include "kernels/base.h"

/*
 * The weight file of a folder: model.safetensors, pytorch_model.bin, their indexes, tf_model.h5,
 * model.weights.h5; else model.onnx there or in onnx/ below (transformers.js), with what other
 * .onnx files lie beside it in *aside, as a list to be read (else NULL). Both to be mem_free'd.
 * ST_IO: there is none; ST_FORMAT: one of another kind; ST_NOMEM.
 */
enum status checkpoint_folder(const char *folder, char **weights, char **aside) MUST_CHECK;

#endif
