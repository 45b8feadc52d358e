#!/usr/bin/env python3
"""MB/s of our byte-level BPE, of `tokenizers` and of `tiktoken` on the same documents and threads, by turns, in one run.

    python3 bench/data/compare_tokenizers.py build/release/bin/bench_tokenizer TOKENIZER.json DOCUMENTS [--threads 2] [--rounds 7]

TOKENIZER.json is GPT-2's or Llama 3's, or one of their shape. DOCUMENTS: a text file (a document each 4 KiB, at a line's end), or with the name *.bin what
tests/golden/tokenizer_equality.py --keep wrote. Needs the packages `tokenizers` and `tiktoken`, the latter with the patterns that it has itself for the two
(quicker ones, which cut in the same places). All load first; a round is one pass of each over all documents, in changing order; figures are medians. The ids of
all three are compared, too (tiktoken knows no added tokens here, so documents with such a text may differ from it).
"""
import argparse, json, os, random, statistics, struct, subprocess, sys, tempfile, time

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("tokenizer")
p.add_argument("documents")
p.add_argument("--threads", type=int, default=2)
p.add_argument("--rounds", type=int, default=7)
a = p.parse_args()
os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = str(a.threads), "true"
import tiktoken, tokenizers

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
LLAMA3 = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""


def read_documents(path):
    raw, out = open(path, "rb").read(), []
    if path.endswith(".bin"):
        at = 0
        while at < len(raw):
            (n,) = struct.unpack_from("<I", raw, at)
            out.append(raw[at + 4:at + 4 + n].decode())
            at += 4 + n
        return out
    text, at = raw.decode(), 0
    while at < len(text):
        end = text.find("\n", at + 4096) + 1 or len(text)
        out.append(text[at:end])
        at = end
    return out


documents = read_documents(a.documents)
megabytes = sum(len(t.encode()) for t in documents) / 1e6
description = json.load(open(a.tokenizer))
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
stand_ins = {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)} | {chr(b): b for b in printable}
special = {t["content"] for t in description["added_tokens"]}
ranks = {bytes(stand_ins[c] for c in token): i for token, i in description["model"]["vocab"].items() if token not in special}
pattern = GPT2 if description["pre_tokenizer"]["type"] == "ByteLevel" else LLAMA3
tik = tiktoken.Encoding("compared", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
hugging = tokenizers.Tokenizer.from_file(a.tokenizer)

with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/documents", "wb") as f:
        for t in documents:
            f.write(struct.pack("<I", len(t.encode())) + t.encode())
    ours = subprocess.Popen([a.program, a.tokenizer, folder + "/documents", str(a.threads), folder + "/ids"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print("loading the tokenizer takes us %s s" % ours.stdout.readline().split()[1])

    def round_of_ours():
        ours.stdin.write("go\n")
        ours.stdin.flush()
        return float(ours.stdout.readline())

    def timed(work):
        def one():
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        return one

    runners = {
        "trainyard": round_of_ours,
        "tokenizers": timed(lambda: hugging.encode_batch(documents, add_special_tokens=False)),
        "tokenizers, fast": timed(lambda: hugging.encode_batch_fast(documents, add_special_tokens=False)),
        "tiktoken": timed(lambda: tik.encode_ordinary_batch(documents, num_threads=a.threads)),
    }
    seconds = {name: [] for name in runners}
    for r in range(a.rounds + 1):
        for name in random.Random(r).sample(sorted(runners), len(runners)):
            took = runners[name]()
            if r > 0:   # the first round fills caches
                seconds[name].append(took)
    ours.stdin.close()
    assert ours.wait() == 0
    raw, at, mine = open(folder + "/ids", "rb").read(), 0, []
    while at < len(raw):
        (n,) = struct.unpack_from("<I", raw, at)
        mine.append(list(struct.unpack_from("<%di" % n, raw, at + 4)))
        at += 4 + 4 * n

print("%s, %s: %.2f MB in %d documents, %d threads, %d rounds" % (os.path.basename(a.tokenizer), os.path.basename(a.documents), megabytes, len(documents), a.threads, a.rounds))
for name, took in seconds.items():
    rates = sorted(megabytes / t for t in took)
    print("%-18s %8.1f MB/s   (%.1f to %.1f)" % (name, statistics.median(rates), rates[0], rates[-1]))
best = min(statistics.median(seconds[n]) for n in seconds if n != "trainyard")
print("ours over the fastest of the others: %.2f" % (best / statistics.median(seconds["trainyard"])))
theirs = hugging.encode_batch(documents, add_special_tokens=False)
print("documents with other ids than tokenizers: %d, than tiktoken: %d of those without added tokens" % (
    sum(x != y.ids for x, y in zip(mine, theirs)),
    sum(x != y for x, y, t in zip(mine, tik.encode_ordinary_batch(documents), documents) if not any(s in t for s in special))))
