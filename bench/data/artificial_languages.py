#!/usr/bin/env python3
"""Makes three artificial languages of an English text by rule, as pairs of files and as texts.

    python3 bench/data/artificial_languages.py TEXT FOLDER [--words 1200] [--pairs 12000] [--texts 12000]

A sentence is 4 to 10 words in a row of TEXT, all among its most frequent words. Each language has its own order of words, and writes letters by its
own substitution (vowels for vowels):

    ka  the words in the order of the text
    mo  each two neighbours change places
    zu  the words from the last to the first

FOLDER gets en-LANGUAGE.en and en-LANGUAGE.LANGUAGE, whose lines are translations, and texts.txt, with other sentences of all four languages in turn.
No sentence is there twice, so no text has the sentence of a pair. The same arguments give the same files.
"""
import argparse, collections, os, random, re

VOWELS, CONSONANTS = "aeiouy", "bcdfghjklmnpqrstvwxz"
ORDERS = {
    "ka": lambda words: words,
    "mo": lambda words: [w for i in range(0, len(words), 2) for w in reversed(words[i:i + 2])],
    "zu": lambda words: words[::-1],
}


def substitution(language):
    rng, table = random.Random(language), {}
    for letters in (VOWELS, CONSONANTS):
        table.update(zip(letters, rng.sample(letters, len(letters))))
    return str.maketrans(table)


def sentences_of(words, known, seed):
    """All different runs of known words, cut into sentences, in a random order."""
    rng, found, run = random.Random(seed), {}, []
    for word in words + [""]:
        if word in known:
            run.append(word)
            continue
        while len(run) >= 4:
            length = rng.randint(4, 10)
            if len(run[:length]) >= 4: found[tuple(run[:length])] = None
            run = run[length:]
        run = []
    out = [list(s) for s in found]
    rng.shuffle(out)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("folder")
    parser.add_argument("--words", type=int, default=1200, help="how many of the most frequent words are kept")
    parser.add_argument("--pairs", type=int, default=12000, help="of each language")
    parser.add_argument("--texts", type=int, default=12000, help="of each of the four languages")
    a = parser.parse_args()
    words = re.findall(r"[a-z]+|[^a-z\s]", open(a.text, errors="replace").read().lower())
    counts = collections.Counter(w for w in words if w.isalpha())
    known = {w for w, _ in counts.most_common(a.words)}
    sentences = sentences_of(words, known, 1)
    needed = 3 * a.pairs + 4 * a.texts
    if len(sentences) < needed:
        raise SystemExit(f"{a.text} has {len(sentences)} sentences, and {needed} are needed: give a longer text, or smaller numbers")
    os.makedirs(a.folder, exist_ok=True)
    tables = {name: substitution(name) for name in ORDERS}
    say = {name: (lambda s, name=name: " ".join(ORDERS[name](s)).translate(tables[name])) for name in ORDERS}
    say["en"] = " ".join
    rest = iter(sentences)
    for name in ORDERS:
        with open(f"{a.folder}/en-{name}.en", "w") as source, open(f"{a.folder}/en-{name}.{name}", "w") as target:
            for _ in range(a.pairs):
                s = next(rest)
                source.write(say["en"](s) + "\n"), target.write(say[name](s) + "\n")
    with open(f"{a.folder}/texts.txt", "w") as texts:
        for _ in range(a.texts):
            for name in ("en", *ORDERS): texts.write(say[name](next(rest)) + "\n")


main()
