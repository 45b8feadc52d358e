#!/usr/bin/env python3
"""Writes libtrain/data/bpe/composed_pairs.cpp and taken_apart.cpp: canonical decompositions and combining classes as the `tokenizers` package has them.

    for one in composed_pairs taken_apart; do python3 tests/golden/unicode_normal.py $one > libtrain/data/bpe/$one.cpp && clang-format -i libtrain/data/bpe/$one.cpp; done

Needs the package `tokenizers`; 0.23.3 normalises by an older Unicode than it cuts by. Characters are shown to its NFC and NFD; what Python's own
Unicode says is only where to look.
"""
import sys, unicodedata

from tokenizers import normalizers

nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
everything = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
hangul = lambda c: 0xAC00 <= ord(c) < 0xAC00 + 11172
one_of_class = {}
for c in everything:  # only what changes places with the acute or the tilde overlay is known as a mark there
    if unicodedata.combining(c) and ("a\u0301" + c, "a" + c + "\u0334") != (nfd("a\u0301" + c), nfd("a" + c + "\u0334")):
        one_of_class.setdefault(unicodedata.combining(c), c)


def combining_class(c):
    """The class of whose characters none changes places with this one; those of class 0 never do."""
    apart = [k for k, other in one_of_class.items() if nfd("a" + other + c) == "a" + other + c and nfd("a" + c + other) == "a" + c + other]
    assert len(apart) in (1, len(one_of_class)), hex(ord(c))
    return apart[0] if len(apart) == 1 else 0


ranges = []
for c in everything:
    k = combining_class(c) if unicodedata.combining(c) and nfd(c) == c else 0
    if k and ranges and ranges[-1][1] == ord(c) - 1 and ranges[-1][2] == k:
        ranges[-1][1] = ord(c)
    elif k:
        ranges.append([ord(c), ord(c), k])

pairs, apart = [], []
for c in everything:
    if hangul(c) or nfd(c) == c:
        continue
    parts = [int(p, 16) for p in unicodedata.decomposition(c).split()]
    assert len(parts) <= 2 and "".join(nfd(chr(p)) for p in parts) == nfd(c), hex(ord(c))
    composes = len(parts) == 2 and nfc("".join(map(chr, parts))) == c
    (pairs if composes else apart).append([ord(c)] + parts + [0] * (2 - len(parts)))


def array(kind, name, rows):
    print("constexpr %s %s[] = {%s};\n" % (kind, name, ", ".join("{%s}" % ", ".join("0x%X" % x for x in row) for row in rows)))


subject, tables = {
    "composed_pairs": ("Combining classes, and characters that are made of two, of Unicode",
                       [("CombiningClass", "combining_classes", ranges), ("Decomposition", "composed_pairs", pairs)]),
    "taken_apart": ("Characters of Unicode that stand for others, and are never made of them", [("Decomposition", "taken_apart", apart)]),
}[sys.argv[1]]
print("// %s; tests/golden/unicode_normal.py writes this file." % subject)
print('#include "libtrain/data/bpe/composition.h"\n')
print("namespace trainyard::data::bpe {\n\nnamespace {\n")
for kind, name, rows in tables:
    array(kind, name + "_list", rows)
print("}  // namespace\n")
for kind, name, rows in tables:
    print("const std::span<const %s> %s = %s_list;" % (kind, name, name))
print("\n}  // namespace trainyard::data::bpe")
