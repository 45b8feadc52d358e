# Writes the golden shard set datasets/golden/h5py-1 with h5py alone, as anyone would: no index, no checksums.
# usage: python3 tests/golden/shard_h5py.py datasets/golden/h5py-1
import os
import sys

import h5py
import numpy


def document(k):
    """Document k, as tests/data/golden_test.cpp says it again."""
    return f"Document {k}: " + "words and numbers, " * (k * 7 % 13) + str(k * k) + "\n"


def write(path, numbers, dtype):
    tokens = [numpy.append(numpy.frombuffer(document(k).encode(), numpy.uint8), 256).astype(dtype) for k in numbers]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with h5py.File(path, "w") as f:
        f.attrs["format"] = "trainyard.shard/1"
        f.attrs["vocabulary"] = 257
        f.attrs["end_of_document"] = 256
        f["tokens"] = numpy.concatenate(tokens)
        f["documents"] = numpy.cumsum([0] + [len(t) for t in tokens]).astype("<u8")


folder = sys.argv[1]
write(folder + "/train/a.h5", range(0, 8), "<u2")
write(folder + "/train/b.h5", range(8, 13), "<u2")
write(folder + "/validation/c.h5", range(13, 15), "<u4")
