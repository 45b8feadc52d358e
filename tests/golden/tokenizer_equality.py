#!/usr/bin/env python3
"""Compares our ids with those of the `tokenizers` package on megabytes of mixed text.

    python3 tests/golden/tokenizer_equality.py build/release/bin/bench_tokenizer TOKENIZER.json [...] [--bytes 10000000] [--seed 1] [--assigned] [--keep DOCUMENTS]

Needs the package `tokenizers`. The text is made of what a machine has (translations, in as many languages as there are, source code, manuals, binaries
read as text) and of what no one writes: random code points of all planes, unassigned ones, lone marks, controls, mixed scripts, runs of spaces, mojibake, and the
added tokens of each tokenizer. Says of each tokenizer how many documents, bytes and ids were compared, and exits 1 with the first difference.
"""
import argparse, glob, gzip, json, os, random, struct, subprocess, sys, tempfile, unicodedata

from tokenizers import Tokenizer


def translations(rng, want):
    """Texts of .mo catalogues, the same share of each language."""
    by_language = {}
    for path in glob.glob("/usr/share/**/*.mo", recursive=True):
        parts = path.split(os.sep)
        by_language.setdefault(parts[parts.index("LC_MESSAGES") - 1] if "LC_MESSAGES" in parts else "?", []).append(path)
    out = []
    for language, paths in sorted(by_language.items()):
        left = 1 + want // len(by_language)
        rng.shuffle(paths)
        for path in paths:
            data = open(path, "rb").read()
            if data[:4] != b"\xde\x12\x04\x95" or left <= 0:
                continue
            count, _, table = struct.unpack_from("<III", data, 8)
            for i in range(count):
                length, offset = struct.unpack_from("<II", data, table + 8 * i)
                text = data[offset:offset + length].decode("utf-8", "replace").replace("\0", "\n")
                out.append(text)
                left -= length
                if left <= 0:
                    break
    return out, len(by_language)


def files(rng, patterns, want, broken=False):
    paths = [p for pattern in patterns for p in glob.glob(pattern, recursive=True) if os.path.isfile(p)]
    rng.shuffle(paths)
    out = []
    for path in paths:
        if want <= 0:
            break
        raw = (gzip.open if path.endswith(".gz") else open)(path, "rb").read(200000)
        text = raw[:20000].decode("latin-1" if broken and rng.random() < 0.3 else "utf-8", "replace")
        out.append(text)
        want -= len(text.encode())
    return out


SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1C80, 0x1C8F),
           (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x20D0, 0x20FF), (0x2150, 0x218F), (0x2460, 0x24FF), (0x2600, 0x27BF), (0x3000, 0x30FF), (0x4E00, 0x9FFF),
           (0xA640, 0xA7FF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10400, 0x1044F), (0x10D40, 0x10D8F), (0x12000, 0x12100),
           (0x1D400, 0x1D7FF), (0x1F000, 0x1FAFF), (0x20000, 0x20100), (0x323B0, 0x33500), (0xE0000, 0xE01FF), (0xFFFFE, 0x10FFFF)]
SNIPPETS = ["'S", "'s", "'\u017f", "'LL", "'ll", "'Ve", "'RE", "'m", "'D", "'", "''t", " 's", "\r\n", "\n\n", "\r", "\t", " ", "  ", "      ", "\u00a0", "\u3000", "\u2028",
            "\u0085", "\u180e", "\u200b", "\u200d", "\ufeff", "\ufffd", "\0", "\x1b", "\u0301", "\u0300\u0316", "1", "12", "123", "1234", "\u0663\u0664\u0665\u0666", "\u2167", "\u00bd",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "e\u0301", "\u1100\u1161\u11a8", "ß", "ſ", "K", "İ", "ﬁ", "ŉ", "don't", "DON'T",
            "it'ſ", "...", "!?", "--", "://", "#!", "/*", "\n  ", " \n", "\n \n", "\t\t", "a", "The", " the", "中文", "कि", "ไทย", "العربية", "שלום", "ქართული", "አማርኛ"]


def invented(rng, want, added):
    out = []
    everything = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    while want > 0:
        kind, parts = rng.random(), []
        low, high = rng.choice(SCRIPTS)
        for _ in range(int(rng.expovariate(1 / 400)) + 1):
            dice = rng.random()
            if kind < 0.2:
                parts.append(chr(rng.choice(everything)))
            elif dice < 0.35:
                parts.append(rng.choice(SNIPPETS))
            elif dice < 0.36 and added:
                parts.append(rng.choice(added))
            elif dice < 0.9 and kind < 0.7:
                parts.append(chr(rng.randint(low, high)))
            else:
                a, b = rng.choice(SCRIPTS)
                parts.append(chr(rng.randint(a, b)))
            if rng.random() < 0.01:
                parts.append(rng.choice([" ", "\n", "a", "é", "中", "1", "!", "\u0301"]) * rng.randint(1, 300))
        text = "".join(parts).encode("utf-8", "ignore").decode()
        out.append(text)
        want -= len(text.encode())
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("tokenizers", nargs="+")
    p.add_argument("--bytes", type=int, default=10_000_000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--keep", help="write the documents of the last tokenizer there, for compare_tokenizers.py")
    p.add_argument("--assigned", action="store_true", help="only characters that this Python's Unicode knows: for patterns that PCRE2 runs, which may know fewer than Oniguruma")
    a = p.parse_args()
    for path in a.tokenizers:
        rng = random.Random(a.seed)
        added = [t["content"] for t in json.load(open(path)).get("added_tokens", [])]
        n = a.bytes
        texts, languages = translations(rng, n * 35 // 100)
        code = files(rng, ["/usr/include/**/*.h", "/usr/lib/python3*/**/*.py", "/usr/share/perl/**/*.p[lm]"], n * 25 // 100)
        prose = files(rng, ["/usr/share/doc/**/*", "/usr/share/common-licenses/*", "/usr/share/vim/**/*.txt"], n * 12 // 100)
        broken = files(rng, ["/usr/bin/*", "/usr/lib/x86_64-linux-gnu/*.so*"], n * 6 // 100, broken=True)
        rest = n - sum(len(t.encode()) for t in texts + code + prose + broken)
        documents = [t for t in texts + code + prose + broken + invented(rng, rest, added) if t]
        if a.assigned:
            documents = [t for t in ("".join(c for c in t if unicodedata.category(c) != "Cn") for t in documents) if t]
        with tempfile.TemporaryDirectory() as folder:
            place = a.keep or folder + "/documents"
            with open(place, "wb") as f:
                for t in documents:
                    raw = t.encode()
                    f.write(struct.pack("<I", len(raw)) + raw)
            subprocess.run([a.program, path, place, str(a.threads), folder + "/ids"], input=b"go\n", check=True, stdout=subprocess.DEVNULL)
            reference = Tokenizer.from_file(path)
            ours, at, ids, differ = open(folder + "/ids", "rb").read(), 0, 0, 0
            for t, theirs in zip(documents, reference.encode_batch(documents, add_special_tokens=False)):
                (count,) = struct.unpack_from("<I", ours, at)
                mine = list(struct.unpack_from("<%di" % count, ours, at + 4))
                at, ids = at + 4 + 4 * count, ids + count
                if mine != theirs.ids:
                    differ += 1
                    if differ == 1:
                        i = next((i for i, (x, y) in enumerate(zip(mine, theirs.ids)) if x != y), min(len(mine), len(theirs.ids)))
                        print("first difference at token", i, "ours", mine[max(0, i - 2):i + 5], "theirs", theirs.ids[max(0, i - 2):i + 5],
                              "text", repr(t[max(0, theirs.offsets[min(i, len(theirs.offsets) - 1)][0] - 20):][:60]))
            assert at == len(ours)
        print(f"{path}: {len(documents)} documents, {sum(len(t.encode()) for t in documents)} bytes ({languages} languages), {ids} ids, {differ} documents differ", flush=True)
        if differ:
            sys.exit(1)


main()
