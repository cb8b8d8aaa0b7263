#!/usr/bin/env python3
"""Writes tests/ref/golden_metrics.h: labelled predictions and what scikit-learn makes of them.

usage: metrics_golden.py > golden_metrics.h

Two of the nine classes have no image, one of them is predicted; one has images and is never predicted.
"""
import numpy as np
import sklearn
from sklearn import metrics as m

K, N, TOP = 9, 240, 5
rng = np.random.default_rng(7)
logits = rng.normal(size=(N, K)) * 2
target = rng.choice([0, 1, 2, 3, 4, 6, 8], size=N)
logits[np.arange(N), target] += 2
logits[:, 3] = -30                                  # never predicted
probs = np.exp(logits - logits.max(1, keepdims=True))
probs = (probs / probs.sum(1, keepdims=True)).astype(np.float32)
best = probs.argmax(1)
rank = 1 + (probs > probs[np.arange(N), target][:, None]).sum(1)

print(f"/* By tests/ref/metrics_golden.py, scikit-learn {sklearn.__version__}. */")
print(f"enum {{ GOLDEN_CLASSES = {K}, GOLDEN_BINS = 10 }};")
print("static const struct outcome golden_outcomes[] = {")
for t, b, r, p in zip(target, best, rank, probs):
    print(f"    {{{t}, {b}, {r}, {p[b]:.9g}f, {p[t]:.9g}f}},")
print("};")


def scores(average):
    return m.precision_recall_fscore_support(target, best, average=average, zero_division=0)[:3]


ece = 0.0
for i in range(10):
    inside = (probs.max(1) > i / 10) & (probs.max(1) <= (i + 1) / 10)
    if inside.any():
        ece += abs((best == target)[inside].mean() - probs.max(1).astype(float)[inside].mean()) * inside.mean()
macro, weighted = scores("macro"), scores("weighted")
values = dict(top1=m.accuracy_score(target, best),
              topk=m.top_k_accuracy_score(target, probs, k=TOP, labels=range(K)),
              mean_per_class=m.balanced_accuracy_score(target, best), precision=macro[0], recall=macro[1], f1=macro[2],
              weighted_precision=weighted[0], weighted_recall=weighted[1], weighted_f1=weighted[2], ece=ece,
              nll=-np.log(probs[np.arange(N), target].astype(float)).mean())
print("static const struct {\n    double " + ", ".join(values) + ";\n} golden_values = {")
for name, value in values.items():
    print(f"    .{name} = {value:.17g},")
print("};")
each = m.precision_recall_fscore_support(target, best, labels=range(K), zero_division=0)
print("static const double golden_classes[GOLDEN_CLASSES][3] = { /* precision, recall, f1 */")
for row in zip(*each[:3]):
    print("    {" + ", ".join(f"{v:.17g}" for v in row) + "},")
print("};")
matrix = m.confusion_matrix(target, best, labels=range(K))
print("static const int golden_confusion[GOLDEN_CLASSES][GOLDEN_CLASSES] = {")
for row in matrix:
    print("    {" + ", ".join(map(str, row)) + "},")
print("};")
