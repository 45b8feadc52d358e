#!/usr/bin/env python3
"""Writes tables of libtrain/data/bpe/: letters, numbers, punctuation and what stands in words, and the categories and scripts of patterns, as the `tokenizers` package sees them.

    for one in unicode_ranges category_table; do
      python3 tests/golden/unicode_ranges.py $one > libtrain/data/bpe/$one.cpp && clang-format -i libtrain/data/bpe/$one.cpp; done

Needs the package `tokenizers`; 0.23.3 knows Unicode 16, and an older one for punctuation. Every code point but the surrogates is shown to the two
properties, to the pre-tokenizer Punctuation, and to an added token that is a single_word; for the second file to every category, and to the scripts below.
"""
import sys

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


CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCRIPTS = "Arabic Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin Thai".split()


def category_runs():
    """(first code point, category) for each change of the category; "Alternating" for Lu, Ll, Lu, ... in turn."""
    of = ["Cn"] * 0x110000
    of[0xD800:0xE000] = ["Cs"] * 0x800
    for name in CATEGORIES:
        for c in of_property(name):
            assert of[c] == "Cn"
            of[c] = name
    at, out = 0, []
    while at < len(of):
        end = at
        while end < len(of) and of[end] == ("Lu", "Ll")[(end - at) % 2]:
            end += 1
        name = "Alternating" if end - at > 3 else of[at]
        if name != "Alternating":
            end = at + 1
            while end < len(of) and of[end] == name:
                end += 1
            if name == "Lu" and end - at > 1 and of[end:end + 4] == ["Ll", "Lu", "Ll", "Lu"]:
                end -= 1
        out.append((at, name))
        at = end
    return out


def write_categories():
    print("// The category of each code point, and the code points of some scripts; tests/golden/unicode_ranges.py writes this file.")
    print('#include "libtrain/data/bpe/categories.h"\n')
    print("namespace trainyard::data::bpe {\n\nnamespace {\n")
    names = CATEGORIES + ["Cn", "Cs", "Alternating"]
    print("constexpr std::uint32_t run_list[] = {%s};\n" % ", ".join("0x%X" % (256 * c + names.index(name)) for c, name in category_runs()))
    for name in SCRIPTS:
        print("constexpr CodePoints %s_ranges[] = {%s};\n" % (name.lower(), ", ".join("{0x%X, 0x%X}" % tuple(r) for r in ranges(of_property(name)))))
    print("constexpr ScriptRanges script_list[] = {%s};\n" % ", ".join('{"%s", %s_ranges}' % (n, n.lower()) for n in SCRIPTS))
    print("}  // namespace\n\nconst std::span<const std::uint32_t> category_runs = run_list;\nconst std::span<const ScriptRanges> scripts = script_list;\n")
    print("}  // namespace trainyard::data::bpe")


def write_ranges():
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


{"unicode_ranges": write_ranges, "category_table": write_categories}[sys.argv[1]]()
