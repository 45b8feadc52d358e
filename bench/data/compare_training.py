#!/usr/bin/env python3
"""Seconds to train a tokenizer: shard-data --train-tokenizer, BpeTrainer of `tokenizers`, and SentencePiece, by turns, in one run.

    python3 bench/data/compare_training.py --make text.txt [--megabytes 100]
    python3 bench/data/compare_training.py build/release/bin/shard-data text.txt [--vocabulary 32000] [--rounds 3] [--without-sentencepiece]

--make puts manuals, documentation, headers and Python sources of this machine into one text, in an order that a seed decides. Each trainer gets the text a line a
document, with 1 and with 2 threads, in a process of its own. Ours is the whole program, from reading to the written file; of the others, the training call alone.
SentencePiece's BPE has the settings that ours has (sentencepiece-bpe). Seconds are medians; memory is the largest of the process. The merges of ours and of
`tokenizers` are compared. Needs the packages `tokenizers` and `sentencepiece`.
"""
import argparse, gzip, json, os, random, resource, statistics, subprocess, sys, tempfile, time

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FOLDERS = ["/usr/share/doc", "/usr/share/man", "/usr/share/perl", "/usr/include", "/usr/lib/python3", "/usr/lib/python3.11"]

p = argparse.ArgumentParser()
p.add_argument("program", nargs="?")
p.add_argument("text", nargs="?")
p.add_argument("--make")
p.add_argument("--megabytes", type=int, default=100)
p.add_argument("--vocabulary", type=int, default=32000)
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--without-sentencepiece", action="store_true")
p.add_argument("--as", dest="role")   # within a process of its own: tokenizers or sentencepiece
p.add_argument("--output")
p.add_argument("--threads", type=int)
a = p.parse_args()


def make(path):
    files = sorted(os.path.join(d, f) for folder in FOLDERS for d, _, names in os.walk(folder) for f in names if not os.path.islink(os.path.join(d, f)))
    random.Random(1).shuffle(files)
    done = 0
    with open(path, "wb") as out:
        for name in files:
            if done > a.megabytes * 1e6:
                break
            try:
                raw = (gzip.open(name) if name.endswith(".gz") else open(name, "rb")).read()
                raw.decode()
            except (OSError, EOFError, ValueError):
                continue
            if b"\0" not in raw and len(raw) < 1e6:   # shard-data leaves out lines of white space, and `tokenizers` would count them
                done += out.write(b"".join(line + b"\n" for line in raw.split(b"\n") if line.strip(b" \t\r")))
    print("%s: %.1f MB" % (path, done / 1e6))


def train_theirs():
    if a.role == "tokenizers":
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        trainer = trainers.BpeTrainer(vocab_size=a.vocabulary, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        start = time.perf_counter()
        t.train([a.text], trainer)
        print(time.perf_counter() - start)
        t.save(a.output)
    else:
        import sentencepiece
        start = time.perf_counter()
        sentencepiece.SentencePieceTrainer.train(
            input=a.text, model_prefix=a.output, vocab_size=a.vocabulary, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True, num_threads=a.threads, minloglevel=2)
        print(time.perf_counter() - start)


if a.make:
    make(a.make)
    sys.exit()
if a.role:
    train_theirs()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    sys.exit()

with tempfile.TemporaryDirectory() as folder:
    def ours(kind, threads):
        out = folder + "/ours"
        if os.path.exists(out):
            os.remove(out)
        start = time.perf_counter()
        child = subprocess.Popen([a.program, "--input", a.text, "--split", "lines", "--train-tokenizer", "%s:%d" % (kind, a.vocabulary), "--output-tokenizer", out, "--threads", str(threads),
                                  "--tokenizer-sample", "1TB", "--progress", "never"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0
        return time.perf_counter() - start, usage.ru_maxrss

    def theirs(role, threads):
        environment = os.environ | {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"}
        said = subprocess.run([sys.executable, os.path.abspath(__file__), "-", a.text, "--as", role, "--output", "%s/%s" % (folder, role), "--threads", str(threads), "--vocabulary", str(a.vocabulary)],
                              env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout.split()
        return float(said[0]), int(said[1])

    runners = {}
    for threads in (1, 2):
        runners["bpe, %d threads" % threads] = lambda n=threads: ours("bpe", n)
        runners["tokenizers, %d threads" % threads] = lambda n=threads: theirs("tokenizers", n)
    if not a.without_sentencepiece:
        runners["SentencePiece's BPE"] = lambda: theirs("sentencepiece", 2)
    found = {name: [] for name in runners}
    for r in range(a.rounds):
        for name in random.Random(r).sample(sorted(runners), len(runners)):
            found[name].append(runners[name]())
    ours("bpe", 2)
    mine, other = (json.load(open(folder + "/" + n))["model"] for n in ("ours", "tokenizers"))
    print("%.1f MB, %d tokens, %d rounds" % (os.path.getsize(a.text) / 1e6, a.vocabulary, a.rounds))
    seconds = {name: statistics.median(s for s, _ in values) for name, values in found.items()}
    for name, values in found.items():
        print("%-24s %8.1f s   (%.1f to %.1f)  %6.0f MB" % (name, seconds[name], min(v[0] for v in values), max(v[0] for v in values), max(v[1] for v in values) / 1e3))
    for n in (1, 2):
        print("tokenizers over ours, %d threads: %.1f" % (n, seconds["tokenizers, %d threads" % n] / seconds["bpe, %d threads" % n]))
    if not a.without_sentencepiece:
        print("SentencePiece over ours, 2 threads: %.1f" % (seconds["SentencePiece's BPE"] / seconds["bpe, 2 threads"]))
    print("the same vocabulary and merges: %s" % (mine["vocab"] == other["vocab"] and mine["merges"] == [" ".join(m) for m in other["merges"]]))
