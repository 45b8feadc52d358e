#!/usr/bin/env python3
"""Makes tests/golden/attention_golden.h with PyTorch: attention to the keys of another sequence, and with a bias of positions, forward and backward in f64.

    python3 tests/golden/attention_golden.py > tests/golden/attention_golden.h

Operands are those of MatrixBuffer::fill (tests/kernels/matrix_buffer.h). The gradient of the bias comes from autograd, through the index that gives every pair its distance.
"""
import textwrap

import torch
import torch.nn.functional as F


def fill(seed, *shape):
    out, count = [], torch.Size(shape).numel()
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((seed >> 33) * 2.0**-30 - 1)
    return torch.tensor(out, dtype=torch.float64).reshape(shape)


def case(name, queries, keys, heads, kv_heads, head_dim, causal, biased, start, end, scale=0.7, seed=50):
    q, k, v = fill(seed, 2, queries, heads, head_dim), fill(seed + 1, 2, keys, kv_heads, head_dim), fill(seed + 2, 2, keys, kv_heads, head_dim)
    dout, bias = fill(seed + 3, 2, queries, heads, head_dim), fill(seed + 4, heads, queries + keys - 1)
    for x in (q, k, v, bias):
        x.requires_grad_()
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
    first, last = torch.tensor(start).reshape(2, queries, 1), torch.tensor(end).reshape(2, queries, 1)
    seen = (j >= first) & (j < last)
    if causal:
        seen = seen & (j <= i)
    added = bias[:, j - i + queries - 1] if biased else torch.zeros(heads, queries, keys, dtype=torch.float64)
    scores = torch.where(seen[:, None], added[None], float("-inf"))
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*heads_first, attn_mask=scores, scale=scale, enable_gqa=heads != kv_heads).transpose(1, 2)
    out.backward(dout)
    products = scale * heads_first[0] @ heads_first[1].repeat_interleave(heads // kv_heads, 1).transpose(2, 3)
    lse = torch.logsumexp(products + scores, -1)
    rows = {"out": out, "lse": lse, "dq": q.grad, "dk": k.grad, "dv": v.grad, "d_bias": bias.grad if biased else torch.zeros(0)}
    print(f'    {{"{name}", {queries}, {keys}, {heads}, {kv_heads}, {head_dim}, {str(causal).lower()}, {str(biased).lower()},')
    lists = [start, end] + [x.detach().reshape(-1).tolist() for x in rows.values()]
    texts = ["\n".join(textwrap.wrap(", ".join(repr(x) for x in values), 110)) for values in lists]
    print(",\n".join("     {" + text.replace("\n", "\n      ") + "}" for text in texts) + "},")


def main():
    print("// Made by tests/golden/attention_golden.py: attention by PyTorch in f64, for two sequences.")
    print("#pragma once\n\n#include <cstdint>\n#include <vector>\n\nnamespace trainyard::test {\n")
    print("struct AttentionGolden {\n  const char* name;\n  std::int64_t queries, keys, heads, kv_heads, head_dim;\n  bool causal, biased;")
    print("  std::vector<std::int32_t> start, end;\n  std::vector<double> out, lse, dq, dk, dv, d_bias;\n};\n")
    print("// clang-format off\ninline const AttentionGolden attention_golden[] = {")
    case("to another sequence", 5, 7, 4, 2, 2, False, False, [0, 0, 3, 3, 5] + [0] * 5, [3, 3, 5, 5, 7] + [4] * 5)
    case("to another sequence with a bias", 4, 3, 2, 1, 2, False, True, [0] * 8, [2] * 4 + [3] * 4)
    case("both ways with a bias", 5, 5, 2, 2, 2, False, True, [0] * 10, [5] * 5 + [4] * 5)
    case("causal with a bias", 6, 6, 2, 1, 2, True, True, [0, 0, 2, 2, 2, 2] + [0] * 6, [6] * 12)
    print("};\n// clang-format on\n\n}  // namespace trainyard::test")


main()
