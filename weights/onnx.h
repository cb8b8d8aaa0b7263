/*
 * onnx: the weights inside an ONNX graph (onnx/onnx.proto). The graph is not run: vitrine has the
 * networks itself, and takes the initialisers by what they are called and used for.
 */
#ifndef WEIGHTS_ONNX_H
#define WEIGHTS_ONNX_H

#include "weights/checkpoint.h"

/* ModelProto as every writer begins it: ir_version, then another of its first fields. */
bool onnx_recognise(const uint8_t *bytes, size_t size);

/*
 * Every floating-point initialiser and constant of more than one element, named (onnx_names.c) as
 * the PyTorch module that it came from; what no module owns is marked unused. Integers are the
 * graph's arithmetic and are not listed. External data is mapped from files inside the model's
 * folder. Also norm_eps and activation, where nodes say them. ST_FORMAT, ST_IO, ST_NOMEM.
 */
enum status onnx_parse(struct checkpoint *out) MUST_CHECK;

#endif
