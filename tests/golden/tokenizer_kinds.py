#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/kinds/: a small tokenizer of each family (tokenizer_families.py), and what the `tokenizers` package makes of tricky texts with them.

    python3 tests/golden/tokenizer_kinds.py

Needs the packages `tokenizers` (0.23.3) and `sentencepiece` (0.2.3 made the files that are here). Vocabularies are trained on the pages of this repository.
ids.json has the texts, and for each tokenizer their ids and what these decode to, unless it is the text; null where bytes are cut, which
we keep and the package replaces.
"""
import glob, json, os, re

import tokenizer_families
from charsmap import charsmap
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "tokenizers", "kinds")
known = json.load(open(os.path.join(here, "tokenizers", "ids.json")))
words = re.search(r'WORDS = """(.*?)"""', open(os.path.join(here, "tokenizers_golden.py")).read(), re.S)[1]
pages = [open(p, encoding="utf8").read() for p in sorted(glob.glob(os.path.join(here, "..", "..", "**", "README.md"), recursive=True)) if "build" not in p]
TEXTS = [r["text"] for r in known if len(r["text"]) < 400] + [
    "Hello  world", " Hello", "Hello ", "\u2581\u2581a\u2581b \u2581", "a\u2581\u2581b", "\u2581", "\u2581 \u2581", "x<s>y </s> z<unk>\u2581<s>", "<0x41><0x0A>", "<unk><unk> \u9f98\u9f98\u9f98<unk>\u9f98", "\u9f98\u9f98 \u9f98 a\u9f98\u9f98b",
    "``quoted'' ''", "\u00c4\u00d6\u00dc \u00e9\u00e8 \u0130stanbul \u01c4 \u1e9e \u03a3\u03a3", "\ufb01ne \u2460\u2461 \u00bd \uff21\uff22\uff23 \u3231 \ufdfa \u1d2c", "na\u00efve cafe\u0301 A\u030a \u1100\u1161\u11a8 \uac01", "\u4e2d\u6587abc\u4e2d \u3042\u30a2 \uff71", "un##aff ##able [MASK] [UNK]x[SEP]",
    "supercalifragilistic" * 8, "a\u00adb\u200bc\ufeffd\u2028e\u0085f\x0bg\x07h", "e|f|g|| hee|he", "The Cat, the CAT; Zug cat cats Zugcat", "x\r\n\r\ny\n\n\n\n\nz <h1>Head</h1>", "   12345 678 1 22 333 4444  ", "a\u0301 a\u0301\u0302 \u0915\u094d\u0937\u0301 \u00a9\u200d\u00a9 \u0600a \u0600\u0301 \u1100\uac00\u0301",
    "\x01\x02start", "\u0301start", "\u00adstart", "  start", "\n\nstart", "x" * 101 + " " + "y" * 100, "can't don't do not it's I've you're n't . ? ! , ' x", "\u0e01\u0e33 \u0928\u093f \u0ba8\u0bbf \U0001f1e9\U0001f1ea\u0301",
]
RULES = {"a\u0301": "\u00e1", "a": "a", "\u00c4": "ae", "\ufb01": "fi", "\u00bd": "1/2", "\u2460": "1", "\u00a9": "(c)", "\u0937": "S", "\u0600": "#", "\u1100": "g", "\uac00": "ga", "\r\n": "\n", "\r": " ", "\n": " ", "\t": " ", "\x01": "", "\x02": "",
         "\u200b": "", "\u00ad": "", "\u3000": " ", "\u2028": " ", "e": "e", "e\u0301\u0302": "ê", "\u0915": "k"}
os.makedirs(folder, exist_ok=True)
own_rules = lambda: charsmap({k: v for k, v in RULES.items() if k not in ("a", "e")})
tokenizer_families.nmt_nfkc = lambda fold=False: own_rules()
texts, made = tuple(pages[:6] + [words] * 12), {}
for family in tokenizer_families.FAMILIES:
    if family.__name__ in ("gpt2", "llama3", "olmo2", "starcoder", "falcon", "t5_old"):   # tokenizers_golden.py and tokenizers_variants.py have these steps
        continue
    how = {"charsmap_of": own_rules} if "charsmap_of" in family.__code__.co_varnames else {}
    d = family(texts, 420 if family.__name__ != "unigram_byte_level" else 300, **how)
    with open(os.path.join(folder, family.__name__ + ".json"), "w") as f:
        json.dump(d, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    made[family.__name__] = Tokenizer.from_file(os.path.join(folder, family.__name__ + ".json"))


def decoded(t, ids):
    text = t.decode(ids, skip_special_tokens=False)
    return None if "\ufffd" in text else text


with open(os.path.join(folder, "ids.json"), "w") as f:
    rows = []
    for text in TEXTS:
        ids = {n: t.encode(text, add_special_tokens=False).ids for n, t in made.items()}
        rows.append({"text": text, "ids": ids, "decoded": {n: d for n, i in ids.items() if (d := decoded(made[n], i)) != text}})
    f.write("[" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "]\n")
