#!/usr/bin/env python3
"""Makes tests/golden/relative_buckets_golden.h with transformers: the buckets of T5Attention._relative_position_bucket for the distances -3000 to 3000.

    python3 tests/golden/relative_buckets_golden.py > tests/golden/relative_buckets_golden.h

A pair in the header is a bucket and how many neighbouring distances have it. transformers takes a logarithm in float32; where it errs, this script says so and stops.
"""
from itertools import groupby

import torch
from transformers.models.t5.modeling_t5 import T5Attention


def exact(distance, buckets, maximum, bidirectional):
    side = buckets // 2 if bidirectional else buckets
    n = abs(distance) if bidirectional else max(0, -distance)
    first, bucket = side // 2, n
    rest = side - first
    if n >= first:
        bucket = max(b for b in range(first, side) if n**rest >= maximum ** (b - first) * first ** (side - b))
    return bucket + (side if bidirectional and distance > 0 else 0)


print("// Made by tests/golden/relative_buckets_golden.py: buckets of T5 by transformers, for the distances -3000 to 3000.")
print("#pragma once\n\n#include <cstdint>\n#include <utility>\n#include <vector>\n\nnamespace trainyard::test {\n")
print("struct BucketsGolden {\n  std::int64_t buckets, maximum_distance;\n  bool bidirectional;")
print("  std::vector<std::pair<int, int>> runs;  // a bucket, and how many neighbouring distances have it\n};\n")
print("// clang-format off\ninline const BucketsGolden buckets_golden[] = {")
for buckets, maximum in ((32, 128), (32, 64), (64, 256), (16, 100), (8, 20), (10, 50), (32, 1000)):
    for bidirectional in (True, False):
        distances = range(-3000, 3001)
        found = T5Attention._relative_position_bucket(torch.tensor(distances), bidirectional, buckets, maximum).tolist()
        wrong = [d for d, bucket in zip(distances, found) if bucket != exact(d, buckets, maximum, bidirectional)]
        assert not wrong, (buckets, maximum, bidirectional, wrong)
        runs = ["{%d, %d}" % (bucket, len(list(run))) for bucket, run in groupby(found)]
        lines = [", ".join(runs[i:i + 9]) for i in range(0, len(runs), 9)]
        print("    {%d, %d, %s, {%s}}," % (buckets, maximum, str(bidirectional).lower(), ",\n      ".join(lines)))
print("};\n// clang-format on\n\n}  // namespace trainyard::test")
