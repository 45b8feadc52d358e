#!/usr/bin/env python3
"""Writes libtrain/data/bpe/unicode_ranges.cpp: letters, numbers, punctuation and what stands in words, as the `tokenizers` package sees them.

    python3 tests/golden/unicode_ranges.py > libtrain/data/bpe/unicode_ranges.cpp && clang-format -i libtrain/data/bpe/unicode_ranges.cpp

Needs the package `tokenizers`; 0.23.3 knows Unicode 16, and an older one for punctuation. Every code point but the surrogates is shown to the two
properties, to the pre-tokenizer Punctuation, and to an added token that is a single_word.
"""
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

everything = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def ranges(characters):
    out = []
    for c in characters:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def of_property(name):
    found = pre_tokenizers.Split(Regex(r"\p{%s}+" % name), "removed", invert=True).pre_tokenize_str(everything)
    return [ord(c) for part, _ in found for c in part]


letters = of_property("L")
cut = pre_tokenizers.Punctuation("isolated").pre_tokenize_str("".join("a" + c for c in everything))
punctuation = [ord(part) for part, _ in cut if len(part) == 1 and part != "a"]
words = Tokenizer(models.BPE())
words.add_tokens([AddedToken("wagon", single_word=True, normalized=False)])
in_words = {ord(c) for c in everything if not words.encode("wagon" + c).ids}
assert in_words.issuperset(letters)
print("// Letters, numbers, punctuation, and what else stands in words; tests/golden/unicode_ranges.py writes this file.")
print('#include "libtrain/data/bpe/unicode_classes.h"\n')
print("namespace trainyard::data::bpe {\n\nnamespace {\n")
arrays = (("letter_ranges", letters), ("number_ranges", of_property("N")), ("punctuation_ranges", punctuation), ("word_ranges", sorted(in_words.difference(letters))))
for array, characters in arrays:
    print("constexpr CodePoints %s[] = {%s};\n" % (array, ", ".join("{0x%X, 0x%X}" % tuple(r) for r in ranges(characters))))
print("}  // namespace\n")
print("const std::span<const CodePoints> letters = letter_ranges, numbers = number_ranges, punctuation = punctuation_ranges, in_words = word_ranges;\n")
print("}  // namespace trainyard::data::bpe")
