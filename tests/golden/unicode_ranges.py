#!/usr/bin/env python3
"""Writes libtrain/data/bpe/unicode_ranges.cpp: the letters and numbers of Unicode as the `tokenizers` package sees them.

    python3 tests/golden/unicode_ranges.py > libtrain/data/bpe/unicode_ranges.cpp && clang-format -i libtrain/data/bpe/unicode_ranges.cpp

Needs the package `tokenizers`; 0.23.3 knows Unicode 16. Every code point but the surrogates is shown to the two properties.
"""
from tokenizers import Regex, pre_tokenizers

everything = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def ranges(name):
    found = pre_tokenizers.Split(Regex(r"\p{%s}+" % name), "removed", invert=True).pre_tokenize_str(everything)
    out = []
    for c in (ord(c) for part, _ in found for c in part):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


print("// Letters and numbers of Unicode 16; tests/golden/unicode_ranges.py writes this file.")
print('#include "libtrain/data/bpe/unicode_classes.h"\n')
print("namespace trainyard::data::bpe {\n\nnamespace {\n")
for array, name in (("letter_ranges", "L"), ("number_ranges", "N")):
    print("constexpr CodePoints %s[] = {%s};\n" % (array, ", ".join("{0x%X, 0x%X}" % tuple(r) for r in ranges(name))))
print("}  // namespace\n")
print("const std::span<const CodePoints> letters = letter_ranges, numbers = number_ranges;\n")
print("}  // namespace trainyard::data::bpe")
