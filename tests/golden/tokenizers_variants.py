#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/variants.json: what the `tokenizers` package makes of texts with gpt2.json where that normalises or cuts otherwise.

    python3 tests/golden/tokenizers_variants.py

Needs the package `tokenizers` (0.23.3 made the file that is here). A variant is a change of gpt2.json (keys of the file, and added tokens behind its own) with rows of a
text and its ids.
"""
import json, os, random

from tokenizers import Tokenizer

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
base = json.load(open(os.path.join(folder, "gpt2.json")))
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def token(content, **flags):
    return dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False) | flags


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": [*parts, byte_level]}


rng = random.Random(1)
marks = "\u0300\u0301\u0308\u0323\u0327\u0328\u0334\u0345\u05b0\u05bc\u0653\u093c\u09be\u0f71\u0f72\u0f74\u3099\u1161\u11a8\u1175"
letters = "aeoAcdsuz\u00e5\u00ea\u01b0\u0391\u03b9\u05e9\u0627\u0928\u09c7\u0f40\u0fb2\u304b\u1100\u1112\uac00\ud788\u212b\u2126\u0958\ufb1f\u0344\u1e69 x"
mixed = ["".join(rng.choice(marks if rng.random() < 0.6 else letters) for _ in range(12)) for _ in range(60)]
NORMAL = ["e\u0301 n\u0303o\u0302 A\u030a \u0301alone", "caf\u00e9 cafe\u0301", "q\u0307\u0323 q\u0323\u0307 s\u0323\u0307 s\u0307\u0323", "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00 \u1100\u1100\u1161 \uac00\u11a7\uac00\u11a8",
          "\u212b \u2126 K \ufb01 \u00bd \u0958 \u2adc \ufb1d", "\uf900\ufa0e\U0002f800\U0002fa1d", "a\u0345\u0301\u0334b \u0f71\u0f72\u0f74\u0f40", "\u09c7\u09be \u0b47\u0b56 \U00011131\U00011127 \U0001d157\U0001d165",
          "<Caf\u00e9> <Cafe\u0301> <cut\u0301>x<cu\u0301t> a<raw e\u0301>\u0301 <raw \u00e9>", "The train leaves at noon.", "", *mixed]
PUNCTUATION = ["the-final--countdown!! (a, b)... x=y+1 $5 ~^`| \u00ab\u2026\u00bb\u00bf\u00a7\u00b6 \u3001\u3002\u300c\u5217\u8eca\u300d \u061f \u05be a\u2014b\u2013\u2013c \u2e3a\u2e52 \U00011fff", "!!!", "a", " - ", "it's . . .\n..\n", "<|endoftext|>...", "\u20ac\u00a3 \u2020\u2020"]
NUMBERS = ["1 12 123 1234 1234567 x9y", "in 2024, 3.14159", "\u00b2\u00b3\u00b9 \u00bc\u00bd\u00be \u0663\u0664 \u2167", "\u00f2\u00fe \u4e32\u5f39\u673c", " 100 000\n7", *mixed[:20]]
WORDS = ["cat", "cats", "a cat", "a-cat-", "_cat", "cat_", "1cat", "cat\u0301", "\u4e2dcat", "\u00ecat cat\u0660", "catcat cat", "cat\u2160 cat\u200d cat\u20dd", "(cat)cat", " cat dog  cat", "catdog dogcat", "dog  dog\tdogs  dog", "hotcat hotdog hot dog"]
STRIPPED = ["<a>\nx", "<a>\n\nx", "<a> \n x", "<a>\n \n\n\nx", "\n \nx", "x \n <a> \n", "<b> <a>\n<b>", "<a>", "a\t\t b", "<a>\t\n\tx", " <b>\n<a>\u3000\nx"]
SPECIAL = ["a<|x|>b", "<|x|><|x|>", "<|<|x|>|>", "<|endoftext|>", "a <|y|> b <|x", "<|x|", "\u00e9<|x|>\u00e9 <|"]
variants = [
    ("NFC", {"normalizer": {"type": "NFC"}}, [token("<Caf\u00e9>", normalized=True), token("<cu\u0301t>", normalized=True), token("<raw e\u0301>", special=True)], NORMAL),
    ("NFC in a sequence", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}}, [], NORMAL[:4]),
    ("punctuation", {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": "Isolated"})}, [], PUNCTUATION),
    ("punctuations", {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": "Contiguous"})}, [], PUNCTUATION),
    ("behind ByteLevel", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Punctuation", "behavior": "Contiguous"}, byte_level, {"type": "Digits", "individual_digits": False},
        {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": False}]}}, [], PUNCTUATION + NUMBERS),
    ("single words", {}, [token("cat", single_word=True), token("dog", single_word=True, lstrip=True, rstrip=True, normalized=True), token("hotdog")], WORDS),
    ("white space that tokens take", {}, [token("<a>", rstrip=True), token("\n", rstrip=True), token("\n\n"), token("<b>", lstrip=True, rstrip=True, special=True), token("\t", normalized=True)], STRIPPED),
    ("special tokens as text", {}, [token("<|x|>", special=True), token("<|"), token("|>", normalized=True), token("<|y|>", special=True, normalized=True)], SPECIAL),
]
out = []
for name, change, added, texts in variants:
    d = json.loads(json.dumps(base)) | change
    d["added_tokens"] += [{"id": 700 + i} | t for i, t in enumerate(added)]
    t = Tokenizer.from_str(json.dumps(d))
    t.encode_special_tokens = name == "special tokens as text"
    out.append({"name": name, "change": change, "added": added, "special_as_text": t.encode_special_tokens, "rows": [[x, t.encode(x, add_special_tokens=False).ids] for x in texts]})
with open(os.path.join(folder, "variants.json"), "w") as f:
    f.write("[" + ",\n".join(json.dumps(v, separators=(",", ":")) for v in out) + "]\n")
