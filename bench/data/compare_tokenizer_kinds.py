#!/usr/bin/env python3
"""MB/s of each kind of tokenizer.json on one thread: ours, `tokenizers`, and `sentencepiece` for the kinds that it has, by turns, in one run.

    python3 bench/data/compare_tokenizer_kinds.py build/release/bin/bench_tokenizer TEXT [--vocabulary 16000] [--rounds 5] [--kinds llama2,t5,...] [--keep FOLDER]

TEXT: a text file (a document each 4 KiB, at a line's end), or with the name *.bin what tests/golden/tokenizer_equality.py --keep wrote. Needs the packages `tokenizers`
and `sentencepiece`. Vocabularies are trained on TEXT's first 4 MB; --keep keeps the files, and takes those that are there. A round is one pass of each over all
documents, in changing order; figures are medians. The ids are compared with those of `tokenizers`, too.
"""
import argparse, functools, json, os, random, statistics, struct, subprocess, sys, tempfile, time

os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = "1", "false"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden"))
import sentencepiece
import tokenizer_families
import tokenizers

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("documents")
p.add_argument("--vocabulary", type=int, default=16000)
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--kinds", default="llama2,mistral,gemma,bert_uncased,bert_cased,t5,xlmr,albert,qwen2,llama3,gpt2,roberta")
p.add_argument("--keep")
a = p.parse_args()


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
seen, training = 0, []
for t in random.Random(1).sample(documents, len(documents)):
    training.append(t)
    seen += len(t)
    if seen > 4_000_000:
        break


def piece_model(kind):
    """SentencePiece's own model of the kind, with the same normalization."""
    options = dict(model_type="unigram" if kind in ("t5", "xlmr", "albert") else "bpe", hard_vocab_limit=False)
    if options["model_type"] == "bpe":
        options |= dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)
    else:
        options |= dict(normalization_rule_name="nmt_nfkc_cf" if kind == "albert" else "nmt_nfkc")
    return tokenizer_families.sentencepiece_model(training, a.vocabulary, **options)


def timed(work):
    def one():
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    return one


def compare(kind, folder):
    path = os.path.join(a.keep or folder, kind + ".json")
    if not os.path.exists(path):
        with open(path, "w") as f:
            json.dump(getattr(tokenizer_families, kind)(training, a.vocabulary), f, ensure_ascii=False)
    hugging = tokenizers.Tokenizer.from_file(path)
    ours = subprocess.Popen([a.program, path, folder + "/documents", "1", folder + "/ids"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    loading = float(ours.stdout.readline().split()[1])

    def round_of_ours():
        ours.stdin.write("go\n")
        ours.stdin.flush()
        return float(ours.stdout.readline())

    runners = {"trainyard": round_of_ours, "tokenizers": timed(lambda: [hugging.encode(t, add_special_tokens=False) for t in documents])}
    if kind in ("llama2", "mistral", "gemma", "t5", "xlmr", "albert"):
        model = os.path.join(a.keep or folder, kind + ".model")
        if not os.path.exists(model):
            with open(model, "wb") as f:
                f.write(piece_model(kind))
        pieces = sentencepiece.SentencePieceProcessor(model_file=model)
        runners["sentencepiece"] = timed(lambda: [pieces.encode(t) for t in documents])
    seconds = {name: [] for name in runners}
    for r in range(a.rounds + 1):
        for name in random.Random(r).sample(sorted(runners), len(runners)):
            took = runners[name]()
            if r > 0:   # the first round fills caches
                seconds[name].append(took)
    ours.stdin.close()
    assert ours.wait() == 0
    raw, at, differ = open(folder + "/ids", "rb").read(), 0, 0
    for t in documents:
        (n,) = struct.unpack_from("<I", raw, at)
        differ += list(struct.unpack_from("<%di" % n, raw, at + 4)) != hugging.encode(t, add_special_tokens=False).ids
        at += 4 + 4 * n
    middle = {name: statistics.median(took) for name, took in seconds.items()}
    best = min(v for n, v in middle.items() if n != "trainyard")
    rates = "  ".join(f"{megabytes / middle[n]:13.2f}" if n in middle else " " * 13 for n in ("trainyard", "tokenizers", "sentencepiece"))
    print(f"{kind:14} {rates}   ours over the fastest {best / middle['trainyard']:6.2f}   loading {loading:.2f} s, {differ} documents differ", flush=True)


print(f"{os.path.basename(a.documents)}: {megabytes:.2f} MB in {len(documents)} documents, one thread, {a.rounds} rounds, MB/s")
print(f"{'':14} {'trainyard':>13}  {'tokenizers':>13}  {'sentencepiece':>13}")
with tempfile.TemporaryDirectory() as folder:
    if a.keep:
        os.makedirs(a.keep, exist_ok=True)
    with open(folder + "/documents", "wb") as f:
        for t in documents:
            f.write(struct.pack("<I", len(t.encode())) + t.encode())
    for kind in a.kinds.split(","):
        compare(kind, folder)
