# Writes the golden layouts of tests/golden/layouts with h5py alone, as anyone would.
# usage: python3 tests/golden/layouts.py tests/golden/layouts
import sys

import h5py
import numpy

folder = sys.argv[1]
small = numpy.array([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]], "u1")
with h5py.File(folder + "/plain.h5", "w") as f:
    f["layout"] = small
    f["layout"].attrs["block"] = 64
with h5py.File(folder + "/chunks.h5", "w", libver=("v110", "v110")) as f:
    d = f.create_dataset("layout", data=small, chunks=(1, 2, 2), compression="gzip")
    d.attrs["block"] = numpy.uint8(64)

# Of four heads: each sees its diagonal and the block `head + 1` before it; what lies above the diagonal a causal model drops.
n = 8
heads = numpy.zeros((4, n, n), "u1")
for h in range(4):
    for i in range(n):
        heads[h, i, i] = 1
        if i > h:
            heads[h, i, i - h - 1] = 1
heads[0, 0, 7] = heads[2, 3, 4] = 1
with h5py.File(folder + "/heads.h5", "w") as f:
    f["layout"] = heads
    f["layout"].attrs["block"] = 16
