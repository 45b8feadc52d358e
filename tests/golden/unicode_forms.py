#!/usr/bin/env python3
"""Writes tables of libtrain/data/unicode/: compatibility forms, small letters, marks, and what joins characters to one, as the `tokenizers` package has them.

    for one in compatible_single compatible_long lower_case marks grapheme_parts; do
      python3 tests/golden/unicode_forms.py $one > libtrain/data/unicode/$one.cpp && clang-format -i libtrain/data/unicode/$one.cpp; done

Needs the package `tokenizers` (0.23.3 made the files that are here). Every code point is shown to its normalizers. How it divides text into graphemes shows in
Precompiled, which looks up a grapheme of less than six bytes as a whole: so characters of four bytes, which no such grapheme holds, need no table but as
followers. What Python's own Unicode says is only where to look.
"""
import sys, unicodedata

from charsmap import charsmap
from tokenizers import normalizers, pre_tokenizers

everything = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
nfd, nfkd, lower, accents = (n().normalize_str for n in (normalizers.NFD, normalizers.NFKD, normalizers.Lowercase, normalizers.StripAccents))


def bert(**what):
    return normalizers.BertNormalizer(**(dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False) | what)).normalize_str


def precompiled(rules):
    return normalizers.Precompiled(charsmap(rules)).normalize_str


def ranges(characters):
    out = []
    for c in sorted(ord(c) for c in characters):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def runs(pairs):
    """(first, last, step, first's other): rows of characters at equal distances that become characters at the same distances."""
    out = []
    for a, b in pairs:
        if out:
            first, last, step, other = out[-1]
            if b - a == other - first and (a - last == step or (first == last and a - last <= 2)):
                out[-1][1:3] = [a, a - last]
                continue
        out.append([a, a, 1, b])
    return out


def array(kind, name, rows):
    print("constexpr %s %s_list[] = {%s};\n" % (kind, name, ", ".join("{%s}" % ", ".join("0x%X" % x for x in row) for row in rows)))


def compatible():
    return [(c, nfkd(c)) for c in everything if nfkd(c) != nfd(c)]


def table_single():
    return "Characters that stand for one other", [("Run", "compatible_single", runs([(ord(a), ord(b)) for a, b in compatible() if len(b) == 1]))]


def table_long():
    numbers = [x for a, b in compatible() if len(b) > 1 for x in (ord(a), len(b), *map(ord, b))]
    return "Characters that stand for several: each one, their number, and they", [("char32_t", "compatible_long", numbers)]


def table_lower():
    pairs = [(ord(c), ord(lower(c))) for c in everything if lower(c) != c and len(lower(c)) == 1]
    assert [c for c in everything if len(lower(c)) > 1] == ["\u0130"] and lower("\u0130") == "i\u0307"
    return "Small letters of capitals; U+0130, which becomes two characters, is not among them", [("Run", "lower_case", runs(pairs))]


def table_marks():
    both = bert(strip_accents=True)
    clean = bert(clean_text=True)
    cut = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str("".join("a" + c for c in everything))
    return "Marks, controls, and what the pre-tokenizer Digits divides", [
        ("Range", "nonspacing_marks", ranges(c for c in everything if both(c) == "")), ("Range", "combining_marks", ranges(c for c in everything if accents(c) == "")),
        ("Range", "not_clean", ranges(c for c in everything if clean(c) == "")),
        ("Range", "digits", ranges(part for part, _ in cut if len(part) == 1 and part != "a"))]


def table_graphemes():
    of_a, of_sign = precompiled({"a": "b"}), precompiled({"\u00a9": "b"})
    joining = [c for c in everything if of_a("a" + c) == "b"]
    pictures = [c for c in everything if of_sign("\u00a9\u200d" + c) != "b" + c and c not in set(joining)]
    places = [c for c in everything if unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp") or 0x600 <= ord(c) < 0x1200 or 0x11000 <= ord(c) < 0x12000 or 0xA000 <= ord(c) < 0xAC00 or 0xFFF0 <= ord(c) <= 0xFFFF]
    one = {c: precompiled({c: "b"}) for c in places}
    before = [c for c in places if one[c](c + "x") == "b"]
    controls = [c for c in places if ord(c) < 0x10000 and one[c](c + "\u0301") not in ("b", "")]
    linkers = [c for c in joining if 0x800 <= ord(c) < 0x10000 and precompiled({"\u0937": "b"})("\u0915" + c + "\u0937\u0301") == "\u0915" + c + "b\u0301"]
    others = {*joining, *before, *controls}
    front = lambda c: "\u0915" if c != "\u0915" else "\u0916"
    letters = [c for c in places if 0x800 <= ord(c) < 0x10000 and c not in others and any(one[c](front(c) + l + c + "\u0301") == front(c) + l + "b\u0301" for l in linkers)]
    return "What joins a character to the one before it, or keeps apart", [("Range", n, ranges(x)) for n, x in (
        ("joining", joining), ("pictures", pictures), ("joining_next", before), ("apart", controls), ("linkers", linkers), ("linked", letters))]


subject, tables = {"compatible_single": table_single, "compatible_long": table_long, "lower_case": table_lower, "marks": table_marks, "grapheme_parts": table_graphemes}[sys.argv[1]]()
print("// %s; tests/golden/unicode_forms.py writes this file." % subject)
print('#include "libtrain/data/unicode/tables.h"\n')
print("namespace trainyard::data::unicode {\n\nnamespace {\n")
for kind, name, rows in tables:
    if kind == "char32_t":
        print("constexpr char32_t %s_list[] = {%s};\n" % (name, ", ".join("0x%X" % x for x in rows)))
    else:
        array(kind, name, rows)
print("}  // namespace\n")
for kind, name, rows in tables:
    print("const std::span<const %s> %s = %s_list;" % (kind, name, name))
print("\n}  // namespace trainyard::data::unicode")
