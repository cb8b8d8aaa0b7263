/*
 * library: parts of vitrine that are libraries of their own, so that the program starts where what
 * they need is not installed.
 */
#ifndef KERNELS_LIBRARY_H
#define KERNELS_LIBRARY_H

#include "kernels/base.h"

/*
 * The function `symbol` of the library `name`, which is looked for beside the program, in ../lib of
 * there, and on the library path; it stays loaded. *function is to be assigned to a pointer of the
 * right type by memcpy. ST_DEVICE: no such library, or it does not load, or lacks the symbol.
 */
enum status library_function(const char *name, const char *symbol, void **function) MUST_CHECK;

#endif
