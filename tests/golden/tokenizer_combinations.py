#!/usr/bin/env python3
"""Compares our ids with those of the `tokenizers` package for random normalizers, pre-tokenizers and added tokens around the models of tests/golden/tokenizers/kinds.

    python3 tests/golden/tokenizer_combinations.py build/release/bin/bench_tokenizer [--count 100] [--seed 1]

Needs the package `tokenizers`. The texts are those of kinds/ids.json. Prints what we refuse, and the first text that differs of each combination; exits 1 if one does.
A regular expression with a property of Unicode is not among them: PCRE2 may know fewer characters than Oniguruma.
"""
import argparse, json, os, random, struct, subprocess, sys, tempfile

from tokenizers import Tokenizer

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("--count", type=int, default=100)
p.add_argument("--seed", type=int, default=1)
a = p.parse_args()
rng = random.Random(a.seed)
kinds = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers", "kinds")
load = lambda name: json.load(open(os.path.join(kinds, name + ".json")))
texts = [r["text"] for r in load("ids")]
precompiled = load("t5")["normalizer"]
coin = lambda share=0.5: rng.random() < share
text, regex = (lambda s: {"String": s}), (lambda s: {"Regex": s})
behavior = lambda: rng.choice(["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"])
NORMALIZERS = [
    *[(lambda t: lambda: {"type": t})(t) for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")],
    lambda: {"type": "Strip", "strip_left": coin(), "strip_right": coin()},
    lambda: {"type": "Prepend", "prepend": rng.choice(["\u2581", " ", "x"])},
    lambda: {"type": "Replace", "pattern": rng.choice([text(" "), regex(" {2,}"), regex("[aeiou]"), text("th"), regex("\\s+"), text("  "), regex("x*")]), "content": rng.choice(["\u2581", "", "a", " ", "zz"])},
    lambda: {"type": "BertNormalizer", "clean_text": coin(), "handle_chinese_chars": coin(), "strip_accents": rng.choice([None, True, False]), "lowercase": coin()},
    lambda: precompiled,
]
STEPS = [
    *[(lambda t: lambda: {"type": t})(t) for t in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")],
    lambda: {"type": "Digits", "individual_digits": coin()},
    lambda: {"type": "Punctuation", "behavior": behavior()},
    lambda: {"type": "Split", "pattern": rng.choice([text(" "), regex("[aeiou]+"), text("th"), regex("\\s+"), regex("x*"), regex("(?=[A-Z])")]), "behavior": behavior(), "invert": coin(0.3)},
    lambda: {"type": "CharDelimiterSplit", "delimiter": rng.choice(["e", "|", " "])},
    lambda: {"type": "Metaspace", "replacement": rng.choice(["\u2581", "_"]), "prepend_scheme": rng.choice(["always", "first", "never"]), "split": coin(0.6)},
    lambda: {"type": "FixedLength", "length": rng.randint(1, 6)},
]
BYTES = lambda: {"type": "ByteLevel", "add_prefix_space": coin(), "trim_offsets": True, "use_regex": coin()}


def sequence(key, parts):
    return None if not parts else parts[0] if len(parts) == 1 else {"type": "Sequence", key: parts}


def some(of, counts):
    return [rng.choice(of)() for _ in range(rng.choice(counts))]


def with_tokens(d):
    vocabulary = d["model"]["vocab"]
    names = set(vocabulary) if isinstance(vocabulary, dict) else {t for t, _ in vocabulary}
    free = 1 + max([*(vocabulary.values() if isinstance(vocabulary, dict) else [len(vocabulary)]), *(t["id"] for t in d["added_tokens"])])
    names.update(t["content"] for t in d["added_tokens"])
    for word in rng.sample(["train", "Hello", "  ", "\u00c4", "e", "The Cat", "<x>", "cat"], rng.randint(0, 3)):
        if word not in names:
            d["added_tokens"].append(dict(id=free, content=word, single_word=coin(0.3), lstrip=coin(0.3), rstrip=coin(0.3), normalized=coin(0.6), special=coin(0.3)))
            free += 1


def ids_of_ours(description, folder):
    with open(folder + "/tokenizer.json", "w") as f:
        f.write(description)
    with open(folder + "/documents", "wb") as f:
        for t in texts:
            f.write(struct.pack("<I", len(t.encode())) + t.encode())
    run = subprocess.run([a.program, folder + "/tokenizer.json", folder + "/documents", "1", folder + "/ids"], input=b"go\n", capture_output=True)
    if run.returncode == 3:
        print("refused:", run.stderr.decode().split("tokenizer.json: ")[-1].split("\n")[0])
        return None
    assert run.returncode == 0, run.stderr
    raw, at, out = open(folder + "/ids", "rb").read(), 0, []
    while at < len(raw):
        (n,) = struct.unpack_from("<I", raw, at)
        out.append(list(struct.unpack_from("<%di" % n, raw, at + 4)))
        at += 4 + 4 * n
    return out


same = differ = 0
for _ in range(a.count):
    name = rng.choice(["no_bytes", "words", "xlmr", "unigram_bytes", "llama2", "roberta", "bert_cased", "gemma"])
    d = load(name)
    d["normalizer"] = sequence("normalizers", some(NORMALIZERS, [0, 1, 1, 2, 3]))
    steps = some(STEPS, [0, 1, 1, 2, 3])
    if name == "roberta" or (name in ("words", "xlmr") and coin(0.2)):
        steps += [BYTES()] + some(STEPS[3:6], [0, 0, 1])
    d["pre_tokenizer"] = sequence("pretokenizers", steps)
    with_tokens(d)
    description = json.dumps(d, ensure_ascii=False)
    reference = Tokenizer.from_str(description)
    with tempfile.TemporaryDirectory() as folder:
        ours = ids_of_ours(description, folder)
    if ours is None:
        continue
    theirs = [reference.encode(t, add_special_tokens=False).ids for t in texts]
    wrong = [i for i in range(len(texts)) if ours[i] != theirs[i]]
    same, differ = same + (not wrong), differ + bool(wrong)
    if wrong:
        i = wrong[0]
        print("differs:", name, repr(texts[i])[:100], "ours", ours[i][:12], "theirs", theirs[i][:12], json.dumps(d["normalizer"])[:300], json.dumps(d["pre_tokenizer"])[:300], d["added_tokens"][-3:])
print(f"{same} combinations are equal, {differ} differ")
sys.exit(differ > 0)
