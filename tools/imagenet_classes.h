/*
 * imagenet_classes: lists of ImageNet-1k's classes, as indices into imagenet_1k_ids
 * (datasets/labels.h).
 */
#ifndef TOOLS_IMAGENET_CLASSES_H
#define TOOLS_IMAGENET_CLASSES_H

enum { IMAGENET_A = 200, IMAGENET_R = 200 };

/* The classes of ImageNet-A (natural-adv-examples) and ImageNet-R, sorted. */
extern const short imagenet_a[IMAGENET_A];
extern const short imagenet_r[IMAGENET_R];

/*
 * The class of ILSVRC2012_ID i + 1: the challenge's development kit, and with it
 * ILSVRC2012_validation_ground_truth.txt, number the classes in an order of their own, from 1.
 */
extern const short ilsvrc2012_class[1000];

#endif
