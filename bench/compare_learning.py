#!/usr/bin/env python3
"""Does a mixture of experts learn faster than the dense model of the same layers, and does denoising help to translate? What do joined and kept experts lose?

    python3 bench/compare_learning.py --build build/release --text TEXT --work FOLDER [--steps 2400] [--seeds 3] [--json FILE] [--svg FILE]

TEXT is a long English text; the figures in RESULTS.md are of Debian's dict-gcide without indentation, as slurm/quickstart.sh takes it. Three artificial languages are made of it
(bench/data/artificial_languages.py): 12,000 sentences each as pairs in both directions, and 12,000 other sentences of each of the four languages as texts. The tokenizer is BPE with
3,000 tokens of the pairs. FOLDER keeps runs: a second start goes on.

The models have 6 + 3 layers, 64 wide, with feed-forward parts of 256. The mixture has 8 experts in every other layer of both parts, one a token, capacity 1.0 in training and 2.0 in
evaluations, and Gumbel noise. So a token meets the same multiplications in both, but for the gate. Rows are 64 + 64 tokens, 16 a step; translation and infilling take turns by steps.

    dense, mixture   both tasks, as many steps
    translation, dense translation     pairs alone, as many steps (so twice the pairs)
    as many pairs    the mixture, pairs alone, half the steps

Every run has its own seed of initial values and order, 100 steps of warm-up, a cosine to zero, and label smoothing 0.1 in training. Losses are means over the targets of the whole
validation split, without smoothing. "steps to" interpolates between validations, which read 128 rows a set. One thread.

Then experts: the mixtures of two seeds joined; two branches of one mixture, each trained on one half of the directions for an eighth of the steps, joined; 4 experts and 1 expert of each
mixture, the most and the least used. Some also after an eighth of the steps more (learning rate 1e-3).
"""
import argparse, json, os, statistics, subprocess, sys

LANGUAGES = ("ka", "mo", "zu")
LAYERS = "hidden = 64\nheads = 4\nffn = 256\ncontext = 64\n[encoder]\nlayers = 6\n[decoder]\nlayers = 3\n"
EXPERTS = '[experts]\ncount = 8\nevery = 2\ntop-k = 1\ncapacity-factor = 1.0\nevaluation-capacity-factor = 2.0\nnoise = "gumbel"\n'
BOTH = "pairs:1,texts:1"
INTO = ",".join(f"pairs[target_language={language}]:1" for language in LANGUAGES)
KINDS = {  # model, data, share of the steps
    "dense": ("dense", BOTH, 1),
    "mixture": ("mixture", BOTH, 1),
    "translation": ("mixture", "pairs", 1),
    "dense translation": ("dense", "pairs", 1),
    "as many pairs": ("mixture", "pairs", 0.5),
}
COLOURS = {"dense": "#555555", "mixture": "#c0392b", "translation": "#2471a3", "dense translation": "#999999", "as many pairs": "#7fb3d5"}


class Work:
    def __init__(self, a):
        self.a = a
        self.bin = os.path.abspath(os.path.join(a.build, "bin"))
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.text = os.path.abspath(a.text)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")
        os.makedirs(a.work, exist_ok=True)
        os.chdir(a.work)

    def program(self, name, *arguments):
        done = subprocess.run([os.path.join(self.bin, name), *map(str, arguments)], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0: raise SystemExit(f"{name} {' '.join(map(str, arguments))} failed:\n{done.stderr}")
        return done.stdout

    def data(self):
        if os.path.exists("texts/index.json"): return
        subprocess.run([sys.executable, f"{self.here}/data/artificial_languages.py", self.text, "languages"], check=True)
        pairs = []
        for language in LANGUAGES:
            files = f"languages/en-{language}"
            for source, target in (("en", language), (language, "en")):
                pairs += ["--pairs", f"{files}.{source}:{files}.{target}", "--source-language", source, "--target-language", target]
        self.program("shard-data", *pairs, "--train-tokenizer", "bpe:3000", "--validation", 0.02, "--output", "pairs")
        self.program("shard-data", "--input", "languages/texts.txt", "--split", "lines", "--tokenizer", "pairs/tokenizer.json", "--validation", 0.02, "--output", "texts")
        for name, text in (("dense", LAYERS), ("mixture", LAYERS + EXPERTS)):
            with open(f"{name}.toml", "w") as file: file.write(text)

    def train(self, name, *settings, data, steps, seed=1):
        """Returns the lines of metrics that have a validation."""
        last = lambda: [json.loads(line) for line in open(f"{name}/metrics.jsonl")]
        if not os.path.exists(f"{name}/last-checkpoint") or last()[-1]["step"] < steps:
            print(f"training {name}", file=sys.stderr, flush=True)
            objective = ["--alternate-sets"] if "," in data else []
            if "texts" in data: objective += ["--objective", "infilling"]
            self.program("train", *settings, "--data", data, *objective, "--output", name, "--steps", steps, "--seed", seed, "--global-batch", 16, "--micro-batch", 8,
                         "--sequence", 64, "--source-sequence", 64, "--threads", 1, "--label-smoothing", 0.1, "--validate-every", max(1, self.a.steps // 30), "--progress", "never")
        return [line for line in last() if "validation_loss" in line]

    def losses(self, checkpoint, data=BOTH):
        """Of translation and of restoring texts, and the use of experts on pairs as a text."""
        objective = ["--objective", "infilling"] if "texts" in data else []
        text = self.program("train", "--evaluate", checkpoint, "--data", data, *objective, "--threads", 1, "--json", "--progress", "never").splitlines()
        pairs, texts = json.loads(text[0]), json.loads(text[1]) if len(text) > 1 else {}
        return {"translation": pairs["loss"], "texts": texts.get("loss"), "dropped": [max(x["dropped_share"] for x in pairs["experts"])] if "experts" in pairs else [], "use": text[0]}

    def reshard(self, result, *arguments):
        self.program("reshard-checkpoint", *arguments, result, "--force", "--progress", "never")
        return self.losses(result)


def number(loss): return "-" if loss is None else f"{loss:.3f}"


def curve(lines, which):
    """Steps and validation losses of a set, or of all."""
    if which == "all": return [(line["step"], line["validation_loss"]) for line in lines]
    found = []
    for line in lines:
        sets = [s for s in line.get("sets", []) if s["set"] == which]
        found.append((line["step"], sets[0]["validation_loss"] if sets else line["validation_loss"]))
    return found


def steps_to(points, loss):
    """The step at which the curve first falls to this loss, between validations by a straight line; None: never."""
    before = None
    for step, value in points:
        if value <= loss:
            if before is None: return step
            return before[0] + (step - before[0]) * (before[1] - loss) / (before[1] - value)
        before = (step, value)
    return None


def drawing(curves, steps, title):
    """Validation losses on pairs: a line for each seed."""
    width, height, left, right, top, bottom = 720, 440, 60, 20, 50, 50
    values = [v for lines in curves.values() for points in lines for s, v in points if s >= steps * 0.1]
    low, high = min(values), max(values)
    x = lambda s: left + (width - left - right) * s / steps
    y = lambda v: top + (height - top - bottom) * (high - min(v, high)) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="white"/>', f'<text x="{left}" y="24" font-size="15">{title}</text>']
    for i in range(6):
        value, step = low + (high - low) * i / 5, steps * i // 5
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
        out.append(f'<text x="{x(step):.1f}" y="{height - bottom + 20}" text-anchor="middle">{step:,}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">step</text>')
    for i, (name, lines) in enumerate(curves.items()):
        for points in lines:
            path = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points if s >= steps * 0.1)
            out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>')
        out.append(f'<line x1="{width - 190}" x2="{width - 160}" y1="{top + 14 + 20 * i}" y2="{top + 14 + 20 * i}" stroke="{COLOURS[name]}" stroke-width="3"/>')
        out.append(f'<text x="{width - 152}" y="{top + 18 + 20 * i}">{name}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def experts(work, eighth):
    """Losses of joined and kept experts, and after some more steps."""
    one, two = "mixture-1", "mixture-2"
    out = {"seed 1": work.losses(one), "seed 2": work.losses(two)}
    more = ("--learning-rate", "1e-3", "--warmup-steps", 10)

    def with_more(name, folder):
        work.train(f"{folder}-more", "--init-from", folder, *more, data=BOTH, steps=eighth)
        out[f"{name}, {eighth} steps more"] = work.losses(f"{folder}-more")

    work.train("same-more", "--init-from", one, *more, data=BOTH, steps=eighth)
    out[f"seed 1, {eighth} steps more"] = work.losses("same-more")
    out["both seeds joined"] = work.reshard("joined-seeds", "--join-experts", one, two)
    with_more("both seeds joined", "joined-seeds")
    for name, data in (("branch-into", INTO), ("branch-english", "pairs[target_language=en]:1")):
        work.train(name, "--init-from", one, *more, data=data, steps=eighth)
        out[name] = work.losses(name)
    out["branches joined"] = work.reshard("joined-branches", "--join-experts", "branch-into", "branch-english")
    with_more("branches joined", "joined-branches")
    for seed in range(1, work.a.seeds + 1):
        source = f"mixture-{seed}"
        out[f"seed {seed}"] = work.losses(source)
        use = json.loads(out[f"seed {seed}"]["use"])
        with open("use-most.json", "w") as file: json.dump(use, file)
        for layer in use["experts"]: layer["choices"] = [max(layer["choices"]) - n for n in layer["choices"]]
        with open("use-least.json", "w") as file: json.dump(use, file)
        for count in (4, 1):
            for which in ("most", "least"):
                out[f"seed {seed}, the {count} {which} used of 8"] = work.reshard(f"kept-{seed}-{count}-{which}", "--keep-experts", count, "--expert-use", f"use-{which}.json", source)
    with_more("seed 1, the 4 most used of 8", "kept-1-4-most")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="folder of a build, with bin/")
    parser.add_argument("--text", required=True)
    parser.add_argument("--work", required=True, help="folder for data and runs")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", help="write all figures here")
    parser.add_argument("--svg", help="draw the losses of translation here")
    a = parser.parse_args()
    for name in ("json", "svg"):
        if getattr(a, name): setattr(a, name, os.path.abspath(getattr(a, name)))
    work = Work(a)
    work.data()
    seeds = range(1, a.seeds + 1)
    lines, final = {}, {}
    for seed in seeds:
        for kind, (model, data, share) in KINDS.items():
            name = f"{kind.replace(' ', '-')}-{seed}"
            lines[kind, seed] = work.train(name, "--model", f"{model}.toml", "--learning-rate", "3e-3", "--warmup-steps", 100, data=data, steps=int(a.steps * share), seed=seed)
            final[kind, seed] = work.losses(name, data)
    print("| run | seed | translation | texts | largest share dropped in a layer |\n|---|---|---|---|---|")
    for (kind, seed), found in final.items():
        print(f"| {kind} | {seed} | {found['translation']:.3f} | {number(found['texts'])} | {', '.join(f'{100 * x:.0f} %' for x in found['dropped']) or '-'} |")
    print()
    for one, other, which in (("dense", "mixture", "all"), ("dense", "mixture", "pairs"), ("dense translation", "translation", "pairs")):
        for seed in seeds:
            dense, mixture = curve(lines[one, seed], which), curve(lines[other, seed], which)
            reached = steps_to(mixture, dense[-1][1])
            print(f"{other}, seed {seed}, loss of {which}: dense ends at {dense[-1][1]:.3f} after {dense[-1][0]} steps; the mixture " +
                  (f"is there after {reached:.0f}, {dense[-1][0] / reached:.2f} times sooner" if reached else "never gets there") + f", and ends at {mixture[-1][1]:.3f}")
    for other in ("translation", "as many pairs"):
        gains = [final[other, s]["translation"] - final["mixture", s]["translation"] for s in seeds]
        print(f"translation loss of '{other}' minus that of both tasks: {', '.join(f'{g:+.3f}' for g in gains)}; mean {statistics.mean(gains):+.3f}")
    print()
    of_experts = experts(work, a.steps // 8) if a.seeds > 1 else {}
    print("| checkpoint | translation | texts |\n|---|---|---|")
    for name, found in of_experts.items(): print(f"| {name} | {found['translation']:.3f} | {number(found['texts'])} |")
    if a.svg:
        curves = {kind: [curve(lines[kind, s], "pairs") for s in seeds] for kind in KINDS}
        with open(a.svg, "w") as file: file.write(drawing(curves, a.steps, "validation loss of translation, a line for each seed"))
    if a.json:
        with open(a.json, "w") as file:
            json.dump({"runs": [{"kind": k, "seed": s, **{n: v for n, v in f.items() if n != "use"}, "validations": curve(lines[k, s], "pairs")} for (k, s), f in final.items()],
                       "experts": {k: {n: v for n, v in f.items() if n != "use"} for k, f in of_experts.items()}}, file, indent=1)


main()
