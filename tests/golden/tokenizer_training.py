#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/training.json: what BpeTrainer of the `tokenizers` package learns from small texts.

    python3 tests/golden/tokenizer_training.py

Needs the package `tokenizers` (0.23.3 made the file that is here). Each row has a kind of --train-tokenizer, special tokens, lines of text, and the vocabulary (in
the order of ids) and the merges that the package makes of them. The words of two and three letters have many ties, and tokens that two pairs make.
"""
import json, os, random

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
rng = random.Random(1)
words = lambda letters, longest: "".join(rng.choice(letters) for _ in range(rng.randint(1, longest)))
letters = [" ".join(words("ab", 9) for _ in range(8)) + "\n" for _ in range(40)]
syllables = [" ".join(words(["the", "re", "in", "er", "a", "e"], 4) for _ in range(8)) + "\n" for _ in range(60)]
mixed = [
    "The train leaves the yard at noon, and the trainyard's workers leave at 12:45.\n", "Der Zug verläßt den Hof um zwölf Uhr.\n", "Поезд выходит со двора в полдень.\n",
    "列車は正午に車庫を出る。 列车中午离开车场。\n", "x = y[i] << 2;   // ++i && !(a->b)\n", "\tif (a != b)  return 1234567;\r\n", "it's IT'S we'll WE'LL  two  spaces \n", "aaaa aaaaa aaaaaa aaaaaaa aa a\n",
    "<|endoftext|> <|im_start|>user <|im_start|>\n", "é e\u0301 \U0001f682\U0001f683\U0001f683\n", "abab ababab abababab bababa\n", "\u00a0\u2028 \u3000wide\n", "word" * 30 + "\n",
] * 3


def row(kind, size, special, lines):
    t = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "bpe-gpt2")
    t.pre_tokenizer = byte_level if kind == "bpe-gpt2" else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), byte_level])
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"] + special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(t.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    names = sorted(model["vocab"], key=model["vocab"].get)
    print(kind, len(lines), "lines,", len(names), "tokens,", len(merges), "merges")
    return {"kind": kind, "special": special, "lines": lines, "first": names[:300], "vocabulary": names[256 + 1 + len(special):], "merges": merges}


rows = [row("bpe", 330, [], letters), row("bpe", 420, ["<|im_start|>", "[MASK]"], syllables), row("bpe", 460, [], mixed), row("bpe-gpt2", 430, ["[MASK]"], mixed), row("bpe", 1500, [], letters + syllables)]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers", "training.json"), "w") as f:
    f.write("[" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "]\n")
