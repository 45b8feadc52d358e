#!/ usr / bin / env python3
"""Step times that partition-model predicts from a profile of this machine, beside those that train takes, over many layouts of four models.

    python3 bench/compare_predictions.py --build build/release --data DATA [--ranks 1,2,4] [--models dense,experts,sparse,offload] [--steps 16] [--rounds 4] [--work FOLDER] [--json FILE]

DATA is a folder of token shards. In each of `--rounds` rounds, for each model and number of ranks, profile-comm measures links, blocks and folders, and then every layout is
predicted and run: a machine that changes its speed must favour neither some layouts nor predictions. A layout's time is the median of its steps over all rounds, without the
first step of each run; its prediction is the median of those of all rounds. Errors are |predicted / measured - 1|. Regret: the measured time of the layout that was predicted to be the
fastest of a model and number of ranks, over the least measured time. Rounds that stand in the JSON file count, too, so rounds may be hours apart. Run it on a machine without other work. It waits until the cores are free before each program.
"""
import argparse, json, os, shutil, subprocess, sys, time
from statistics import median

DENSE = {"layers": 4, "hidden": 192, "heads": 4, "ffn": 768, "context": 128}
MODELS = {
    "dense": DENSE,
    "experts": {"layers": 4, "hidden": 128, "heads": 4, "ffn": 512, "context": 128, "experts-count": 8, "experts-top-k": 2},
    "sparse": {"layers": 4, "hidden": 128, "heads": 4, "ffn": 512, "context": 256, "attention-layout": "sliding", "attention-block": 32, "attention-window": 3},
    "offload": DENSE,
}
#by ranks : what is added to the flags of all
LAYOUTS = {
    1: ["--micro-batch 1", "--micro-batch 2", "--micro-batch 4", "--micro-batch 8", "--micro-batch 2 --recompute selective", "--micro-batch 4 --recompute full",
        "--micro-batch 1 --local-accumulation 2"],
    2: ["--zero 0 --micro-batch 2", "--zero 1 --micro-batch 4", "--zero 2 --micro-batch 1 --local-accumulation 2", "--zero 3 --micro-batch 2", "--zero 3 --micro-batch 4 --recompute full",
        "--tensor-parallel 2 --micro-batch 2", "--tensor-parallel 2 --sequence-parallel --micro-batch 4", "--pipeline-parallel 2 --micro-batch 1",
        "--pipeline-parallel 2 --micro-batch 2 --pipeline-schedule zero-bubble"],
    4: ["--zero 1 --micro-batch 2", "--zero 3 --micro-batch 1", "--tensor-parallel 2 --zero 1 --micro-batch 2", "--tensor-parallel 4 --micro-batch 2",
        "--pipeline-parallel 2 --zero 1 --micro-batch 1", "--pipeline-parallel 4 --micro-batch 1", "--pipeline-parallel 2 --tensor-parallel 2 --micro-batch 1"],
}
EXPERTS = {2: ["--expert-parallel 2 --zero 1 --micro-batch 2", "--expert-parallel 2 --zero 3 --micro-batch 4"], 4: ["--expert-parallel 4 --zero 1 --micro-batch 1"]}
OFFLOAD = {1: ["--offload optimizer=disk --micro-batch 2", "--offload optimizer=disk,parameters=disk --zero 3 --micro-batch 4"],
           2: ["--offload optimizer=disk --zero 1 --micro-batch 2", "--offload optimizer=disk,parameters=disk --zero 3 --micro-batch 2"],
           4: ["--offload optimizer=disk --zero 1 --micro-batch 1"]}


def layouts(model, ranks):
    if model == "offload":
        return OFFLOAD.get(ranks, [])
    all_ = LAYOUTS.get(ranks, [])
    return all_ if model == "dense" else all_[::2] + (EXPERTS.get(ranks, []) if model == "experts" else [])


def calm():
    """Waits until tasks hardly wait for cores, at most 40 s: programs poll less where others compete for the cores, also where these have ended just now."""
    for _ in range(80):
        try:
            with open("/proc/pressure/cpu") as f:
                if float(f.readline().split("avg10=")[1].split()[0]) < 30:
                    return
        except (OSError, IndexError):
            return
        time.sleep(0.5)


def run(command, folder, wait=True):
    if wait:
        calm()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def launched(ranks):
    return [] if ranks == 1 else ["mpirun", "-n", str(ranks)]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", required=True, help="a build of this repository")
    p.add_argument("--data", required=True, help="a folder of token shards")
    p.add_argument("--ranks", default="1,2,4")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--threads", type=int, default=0, help="of a rank; default: the cores over the ranks, at least 1")
    p.add_argument("--budget", default="30s", help="of each profile, for each rank that shares a core")
    p.add_argument("--batch", type=int, default=8, help="sequences of a step")
    p.add_argument("--only", default="", help="only layouts with these words")
    p.add_argument("--work", default="predictions")
    p.add_argument("--json", default="")
    o = p.parse_args()
    bin_, work, data = os.path.abspath(os.path.join(o.build, "bin")), os.path.abspath(o.work), os.path.abspath(o.data)
    vocabulary = json.load(open(os.path.join(data, "index.json")))["vocabulary"]
    os.makedirs(os.path.join(work, "disk"), exist_ok=True)
    cases = []
    for ranks in map(int, o.ranks.split(",")):
        threads = o.threads or max(1, len(os.sched_getaffinity(0)) // ranks)
        for model in o.models.split(","):
            wanted = [l for l in layouts(model, ranks) if o.only in l]
            if not wanted:
                continue
            keys = dict(MODELS[model], lanes=4)
            toml = os.path.join(work, f"{model}.toml")
            with open(toml, "w") as f:
                for key, value in keys.items():
                    f.write(f"{key} = {json.dumps(value)}\n")
            for layout in wanted:
                flags = ["--model", toml, "--global-batch", str(o.batch), "--threads", str(threads), "--lanes", "4"] + layout.split()
                cases.append({"model": model, "ranks": ranks, "threads": threads, "layout": layout, "flags": flags, "profiles": [], "seconds": []})
    if o.json and os.path.exists(o.json):
        with open(o.json) as f:
            before = {(c["model"], c["ranks"], c["layout"]): c for c in json.load(f)}
        for c in cases:
            c.update({k: v for k, v in before.get((c["model"], c["ranks"], c["layout"]), {}).items() if k in ("profiles", "seconds")})
    first = max(len(c["seconds"]) for c in cases)
    for turn in range(first, first + o.rounds):
        for i, case in enumerate(cases):
            model, ranks = case["model"], case["ranks"]
            profile = os.path.join(work, f"profile-{'dense' if model == 'offload' else model}-{ranks}-{turn}.json")
            if not os.path.exists(profile):
                print(f"round {turn + 1}: measuring {model} on {ranks} ranks", file=sys.stderr, flush=True)
                budget = f"{float(o.budget.rstrip('s')) * max(1, ranks * case['threads'] / len(os.sched_getaffinity(0))):.0f}s"
                command = launched(ranks) + [os.path.join(bin_, "profile-comm"), "--local", "--blocks", "auto", "--model", case["flags"][1], "--vocabulary", str(vocabulary)]
                command += ["--threads", str(case["threads"]), "--budget", budget, "--max-bytes", "4MiB", "--factor", "16", "--disk-bytes", "16MiB", "--output", profile]
                command += ["--storage", os.path.join(work, "disk")] if model in ("dense", "offload") else []
                run(command, work)
            out = os.path.join(work, "run")
            shutil.rmtree(out, ignore_errors=True)
            command = launched(ranks) + [os.path.join(bin_, "train"), "--data", data, "--output", out, "--steps", str(o.steps)] + case["flags"]
            command += ["--offload-dir", os.path.join(work, "disk")] if "--offload" in case["flags"] else []
            print(f"round {turn + 1}, layout {i + 1} of {len(cases)}", file=sys.stderr, end="\r", flush=True)
            run(command, work)
            with open(os.path.join(out, "metrics.jsonl")) as f:
                case["profiles"].append(profile)
                case["seconds"].append([json.loads(line)["step_seconds"] for line in f if '"step_seconds"' in line][1:])
            shutil.rmtree(out, ignore_errors=True)
            if o.json:
                with open(o.json, "w") as f:
                    json.dump(cases, f, indent=1)
    print(f"{'model':<9}{'ranks':>5}  {'layout':<66}{'measured':>10}{'predicted':>11}{'error':>8}  inside")
    for case in cases:
        case["predictions"] = []
        for profile in case["profiles"]:
            predict = [os.path.join(bin_, "partition-model"), "--vocabulary", str(vocabulary), "--machine", profile, "--ranks", str(case["ranks"]), "--json"] + case["flags"]
            case["predictions"].append(json.loads(run(predict, work, wait=False))["predicted"]["step_seconds"])
        measured, said = median(s for round_ in case["seconds"] for s in round_), {k: median(p[k] for p in case["predictions"]) for k in ("median", "low", "high")}
        case["predicted"] = said
        case["measured"], case["error"] = measured, said["median"] / measured - 1
        case["inside"] = said["low"] <= measured <= said["high"]
        print(f"{case['model']:<9}{case['ranks']:>5}  {case['layout']:<66}{measured * 1e3:>7.1f} ms{said['median'] * 1e3:>8.1f} ms{100 * case['error']:>6.1f} %  {'yes' if case['inside'] else 'no'}")
    errors, inside = [abs(c["error"]) for c in cases], sum(c["inside"] for c in cases)
#how far apart the machine's own answers are: every other round against the rest
    halves = [[median(s for r in c["seconds"][from_::2] for s in r) for from_ in (0, 1)] for c in cases if len(c["seconds"]) > 1]
    if halves:
        print(f"two measurements of a layout differ by {100 * median(abs(a / b - 1) for a, b in halves):.1f} % in the median")
    print(f"{len(cases)} layouts: median error {100 * median(errors):.1f} %, largest {100 * max(errors):.1f} %, {inside} inside their intervals")
    for model, ranks in dict.fromkeys((c["model"], c["ranks"]) for c in cases):
        same = [c for c in cases if (c["model"], c["ranks"]) == (model, ranks)]
        chosen = min(same, key=lambda c: c["predicted"]["median"])
        print(f"regret, {model} on {ranks} ranks: {chosen['measured'] / min(c['measured'] for c in same):.3f}  ({chosen['layout']})")
    if o.json:
        with open(o.json, "w") as f:
            json.dump(cases, f, indent=1)


if __name__ == "__main__":
    main()
