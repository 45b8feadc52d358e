#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/: small byte-level BPE tokenizers and what the `tokenizers` package makes of tricky texts with them.

    python3 tests/golden/tokenizers_golden.py

Needs the package `tokenizers` (0.23.3 made the files that are here). They are trained on the pages of this repository and the words below:
gpt2.json like GPT-2's (merges as "a b"), llama3.json like Llama 3's (merges as pairs, ignore_merges, tokens that no merge makes), steps.json with other steps
(digits one by one, a pattern of its own, a literal, a space in front) and added tokens that take spaces along; ids.json holds the ids.
"""
import glob, json, os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
WORDS = """
The train leaves the yard at noon. Der Zug verläßt den Hof um zwölf Uhr. Le train quitte la gare à midi. El tren sale de la estación al mediodía. Поезд выходит со двора в полдень.
Το τρένο φεύγει από τον σταθμό. Поїзд вирушає опівдні. רכבת יוצאת מהתחנה בצהריים. القطار يغادر المحطة ظهرا. रेलगाड़ी दोपहर को निकलती है। ট্রেন দুপুরে ছাড়ে। ரயில் மதியம் புறப்படும்.
รถไฟออกจากสถานีตอนเที่ยง 列车中午离开车场。 列車は正午に車庫を出る。 기차는 정오에 출발한다. მატარებელი შუადღეს გადის. ባቡሩ እኩለ ቀን ይነሳል። Tàu rời ga lúc trưa. Pociąg odjeżdża w południe.
"""
TEXTS = [
    "The train leaves the yard at noon.", "it's IT'S we'll WE'LL I'Ve you'rE 'tis ''s 's'd'LL it\u017f it'\u017f '", "'", " '", "a'", "don'tdon't",
    " leading", "trailing ", "  two  spaces   three\ttab\t\ttabs \t mixed", "a" + " " * 70 + "b" + " " * 33, " ", "   ", "\n", "\r\n", "a\r\nb\r\n\r\n c\n\n\n  d \n e\t\n\n", " \n \n x", "\n \r",
    "1 12 123 1234 12345678901234567890 3.14159 1,000,000 \u0663\u0664\u0665\u0666 \u2167\u2168 \u00bd\u00b2 \u0967\u0968\u0969\u096a a1b22c333d4444", "x = y[i] << 2; // ++i && !(a->b) == {\"k\": [1, 2]}\n\tif (a!=b) return;\n",
    *WORDS.strip().split("\n"), "。\nBYTES 、\n列車。A", "e\u0301 n\u0303o\u0302 \u0301alone \u0300\u0316\u0301 क\u094dष a\u0301\u0301\u0301\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd!\U0001f682\U0001f683\U0001f683",
    "\ufffd\ufffd \ufffd", "\0 a\0b\0\0", "\x01\x1b[31m\x7f\u0085\u009f", "\u00a0\u00a0x\u2003y\u3000z\u2028\u2029 \u180e\u200b\ufeff\u2060 w", "\u0378\u0379 \U000e0fff \ue000\U0010ffff \ufdd0\uffff", "\u1c89\u1c8a \ua7cb \U00010d40\U00010d41 \U000105c0",
    "ǅ ǈ ʰ ª º ﬁ ß ẞ İ ı K Å ℵ \U0001d400\U0001d7ce \U00020000\U0002a6df 〇 々 ー", "unreachable words unreachable unreachablE Ġ Ċ", "z" * 200, "ab" * 150 + " " + "é" * 100 + "中" * 80 + "!" * 90 + "=-" * 60 + "7" * 50,
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|>\n<|endoftext|><|endoftext|>", "<|end_of_text|> <|begin_of_text|>x<|end_of_text", "<|a|>b<|a|> <|a|>bc<<|a|>", "Trainyards Trainyard's trainyard", "x  <mask>  y <sep>  z<mask><sep> <mask> \n<sep>\n",
]


def trained(split, special, size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = split, decoders.ByteLevel()
    pages = [open(p, encoding="utf8").read() for p in sorted(glob.glob(root + "/**/README.md", recursive=True))]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(pages + [WORDS] * 20, trainer)
    return t


def write(name, t, change):
    description = json.loads(t.to_str())
    change(description)
    path = os.path.join(here, "tokenizers", name + ".json")
    with open(path, "w") as f:
        json.dump(description, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    return Tokenizer.from_file(path)


def as_strings(d):
    d["model"]["merges"] = [" ".join(m) for m in d["model"]["merges"]]


def as_llama(d):
    vocabulary = d["model"]["vocab"]
    for token in ("unreachable", "Ġunreachable", "Ġwords", "zzz"):
        vocabulary.setdefault(token, max(vocabulary.values()) + 1)
    first = max(vocabulary.values()) + 1
    d["model"]["ignore_merges"] = True
    d["added_tokens"] = [dict(id=first + i, content=c, single_word=False, lstrip=False, rstrip=False, normalized=c == "Trainyard", special=c != "Trainyard")
                         for i, c in enumerate(["<|begin_of_text|>", "<|end_of_text|>", "<|a|>", "<|a|>b", "Trainyard"])]


PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
OWN = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|(?<=[.!])\s+|\p{Han}|(?=\p{Lu})"
os.makedirs(os.path.join(here, "tokenizers"), exist_ok=True)
made = {
    "gpt2": write("gpt2", trained(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"], 700), as_strings),
    "llama3": write("llama3", trained(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), [], 700), as_llama),
}
steps = trained(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(OWN), "isolated"), pre_tokenizers.Split("ab", "isolated"),
                                         pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)]), [], 500)
steps.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<sep>", rstrip=True, normalized=False), "Trainyard"])
made["steps"] = write("steps", steps, lambda d: None)
new_in_16 = lambda t: any(c in t for c in "\u1c89\ua7cb\U00010d40")   # PCRE2 may not know these letters yet
with open(os.path.join(here, "tokenizers", "ids.json"), "w") as f:
    rows = [{"text": t} | {n: m.encode(t, add_special_tokens=False).ids for n, m in made.items() if n != "steps" or not new_in_16(t)} for t in TEXTS]
    f.write("[" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "]\n")
