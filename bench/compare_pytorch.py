#!/usr/bin/env python3
"""Tokens per second of `train` and of PyTorch on the same model, tokens and threads, in turn, in one run.

    python3 bench/compare_pytorch.py --train build/release/bin/train --data DATA [--threads 4] [--steps 12] [--rounds 3] [--dtype bf16]
    python3 bench/compare_pytorch.py --kernels build/release/bin/bench_kernels_attention [--threads 4] [--rounds 3] [--dtype bf16]
    python3 bench/compare_pytorch.py --train build/cuda/bin/train --data DATA --device cuda [--kernels build/cuda/bin/bench_kernels_gpu]

DATA is a shard set of any text (bytes tokenizer). Run it with a Python that has torch. PyTorch runs three ways, because on some processors its
matrix library chooses slow code by the vendor's name: as installed; with glibc kept from giving memory back between steps; and with the vendor check
answered 'yes' by a one-line library made here. The ratio is against the fastest, and only if its own GEMM reaches 60 % of ours. Each round starts every program once;
a ratio is the median over rounds of ours to theirs in the same round, with the least and the greatest, and no verdict where those differ by more than 20 % of it; the fastest round of each is said, too, for machines that change their pace from minute to minute.
--dtype bf16: ours with bf16 weights and f32 masters, PyTorch with autocast over f32 weights. With --kernels alone attention is compared by itself: forward and backward
against PyTorch's fused kernel, causal, 12 heads of 64, four sequences of 1024 tokens and one of 4096 and 8192.

On a GPU both work in bf16 on sequences of 1024 (PyTorch: autocast over f32 weights, fused attention and AdamW, eager and compiled), each at its best micro-batch. The
share is of 989.4 TFLOP/s, counting 6 N + 12 L h T for each token: causal attention in full, recomputation and the embedding lookup not at all. PyTorch gets a vocabulary of 50304, which suits its products best. With --kernels attention is compared
too: forward and backward against the faster of PyTorch's flash and cuDNN kernels, causal, 16384 tokens, 2048 channels.
"""
import argparse, json, os, subprocess, sys, tempfile, time
from statistics import median

MODELS = {
    "4x256": dict(layers=4, hidden=256, heads=4, vocabulary=8192, batch=8, sequence=256),
    "gpt2": dict(layers=12, hidden=768, heads=12, vocabulary=50257, batch=4, sequence=256),
}
GPU_MODELS = {
    "gpt2": dict(layers=12, hidden=768, heads=12, vocabulary=50257, sequence=1024, parameters=124439808),
    "gpt2-xl": dict(layers=48, hidden=1600, heads=25, vocabulary=50257, sequence=1024, parameters=1557611200),
}
PEER = r'''
import contextlib, json, statistics, sys, time, torch, torch.nn as nn, torch.nn.functional as F
m = json.loads(sys.argv[1]); threads = int(sys.argv[2]); steps = int(sys.argv[3])
device = m.get("device", "cpu")
torch.set_num_threads(threads); torch.manual_seed(1)
def settle():
    if device == "cuda": torch.cuda.synchronize()
def gemm():
    if device == "cuda": return 0
    a, b, c = torch.randn(1024, 768), torch.randn(768, 3072), torch.empty(1024, 3072)
    times = []
    for _ in range(30):
        t = time.perf_counter(); torch.mm(a, b, out=c); times.append(time.perf_counter() - t)
    return 2 * 1024 * 768 * 3072 / statistics.median(times) / 1e9
class Layer(nn.Module):
    def __init__(s, h, heads):
        super().__init__()
        s.heads = heads; s.n1, s.n2 = nn.LayerNorm(h), nn.LayerNorm(h)
        s.qkv, s.out, s.up, s.down = nn.Linear(h, 3 * h), nn.Linear(h, h), nn.Linear(h, 4 * h), nn.Linear(4 * h, h)
    def forward(s, x):
        b, t, h = x.shape
        q, k, v = (z.view(b, t, s.heads, -1).transpose(1, 2) for z in s.qkv(s.n1(x)).split(h, 2))
        x = x + s.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, h))
        return x + s.down(F.gelu(s.up(s.n2(x)), approximate="tanh"))
class Model(nn.Module):
    def __init__(s):
        super().__init__()
        h = m["hidden"]
        s.tokens, s.positions = nn.Embedding(m["vocabulary"], h), nn.Embedding(1024, h)
        s.layers = nn.ModuleList(Layer(h, m["heads"]) for _ in range(m["layers"])); s.norm = nn.LayerNorm(h)
    def forward(s, x, y):
        z = s.tokens(x) + s.positions(torch.arange(x.shape[1], device=x.device))
        for layer in s.layers: z = layer(z)
        return F.cross_entropy(F.linear(s.norm(z), s.tokens.weight).flatten(0, 1), y.flatten())
model = Model().to(device); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True); times = []
run = torch.compile(model) if m.get("compile") else model
narrow = torch.autocast(device, dtype=torch.bfloat16) if device == "cuda" or m.get("dtype") == "bf16" else contextlib.nullcontext()
for _ in range(steps):
    x = torch.randint(0, 256, (m["batch"], m["sequence"] + 1), device=device); settle(); t = time.perf_counter()
    optimizer.zero_grad(set_to_none=False)
    with narrow: loss = run(x[:, :-1], x[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step(); loss.item(); settle(); times.append(time.perf_counter() - t)
times = times[2:]
print(json.dumps(dict(version=torch.__version__, blas=torch.__config__.show().count("MKL") and "MKL" or "other", gemm=gemm(),
                      tokens=m["batch"] * m["sequence"] / statistics.median(times))))
'''


def surroundings():
    """The environment without the libraries of a bundle of ours (tests/gpu_prebuilt.sh)."""
    kept = dict(os.environ)
    if "PEER_LIBRARY_PATH" in kept:
        kept["LD_LIBRARY_PATH"] = kept.pop("PEER_LIBRARY_PATH")
    return kept


def peer(model, threads, steps, env):
    out = subprocess.run([sys.executable, "-c", PEER, json.dumps(model), str(threads), str(steps)], env={**surroundings(), **env}, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit("PyTorch failed:\n" + out.stderr)
    return json.loads(out.stdout.splitlines()[-1])


def ours(train, model, data, threads, steps, folder, extra=("--device", "cpu")):
    toml = os.path.join(folder, "model.toml")
    with open(toml, "w") as f:
        f.write('name = "bench"\nlayers = {layers}\nhidden = {hidden}\nheads = {heads}\nkv-heads = {heads}\nffn = {ffn}\nvocabulary = {vocabulary}\ncontext = 1024\n'.format(ffn=4 * model["hidden"], **model))
    run = tempfile.mkdtemp(dir=folder)
    metrics = os.path.join(run, "metrics.jsonl")
    # More steps than are wanted, and ended from outside: nothing is saved, which takes longer than the steps of a large model.
    with subprocess.Popen([train, "--model", toml, "--data", data, "--output", run, "--steps", "100000", "--global-batch", str(model["batch"]), "--micro-batch", str(model["batch"]),
                           "--sequence", str(model["sequence"]), "--threads", str(threads), "--progress", "never", *extra], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and lines_of(metrics) < steps:
            time.sleep(0.1)
        process.kill()
        said = process.stderr.read()
    if lines_of(metrics) < steps:
        raise RuntimeError("train ended: " + said.strip())
    with open(metrics) as f:
        return median(json.loads(line)["tokens_per_second"] for line in list(f)[2:steps])


def lines_of(path):
    try:
        with open(path) as f:
            return f.read().count("\n")
    except FileNotFoundError:
        return 0


ATTENTION_PEER = r'''
import json, sys, torch, torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
out = {}
for t in (1024, 2048, 4096):
    for d in (64, 128):
        q, k, v, g = (torch.randn(16384 // t, 2048 // d, t, d, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        for x in (q, k, v): x.requires_grad_(True)
        def seconds(work):
            for _ in range(3): work()
            torch.cuda.synchronize()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            for _ in range(20): work()
            b.record(); torch.cuda.synchronize()
            return a.elapsed_time(b) / 20e3
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            try:
                with sdpa_kernel(backend):
                    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    forward = seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                    backward = seconds(lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True))
            except RuntimeError:
                continue
            for name, s in (("forward", forward), ("backward", backward)):
                key = f"{name}/T:{t}/d:{d}"
                if key not in out or s < out[key][0]: out[key] = (s, backend.name)
print(json.dumps(out))
'''


CPU_ATTENTION_PEER = r'''
import json, sys, time, torch, torch.nn.functional as F
torch.set_num_threads(int(sys.argv[1])); torch.manual_seed(1); out = {}
def least(work):
    work(); times = []
    for _ in range(3):
        t = time.perf_counter(); work(); times.append(time.perf_counter() - t)
    return min(times)
for t, batch in ((1024, 4), (4096, 1), (8192, 1)):
    q, k, v, g = (torch.randn(batch, 12, t, 64, dtype=dict(f32=torch.float32, bf16=torch.bfloat16)[sys.argv[2]]) for _ in range(4))
    with torch.no_grad(): out[f"forward/T:{t}"] = least(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    for x in (q, k, v): x.requires_grad_(True)
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out[f"backward/T:{t}"] = least(lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True))
print(json.dumps(out))
'''


def attention_on_cpu(a, ways):
    """Ours over PyTorch's in each round, against the fastest of the ways in it."""
    ratios, mine, theirs = {}, {}, {}
    for _ in range(a.rounds):
        found = json.loads(subprocess.run([a.kernels, f"--benchmark_filter=ward_{a.dtype}/T:(1024|4096|8192)/threads:{a.threads}/", "--benchmark_format=json", "--benchmark_min_time=0.5"],
                                          capture_output=True, text=True, check=True).stdout)["benchmarks"]
        peers = []
        for env in ways.values():
            out = subprocess.run([sys.executable, "-c", CPU_ATTENTION_PEER, str(a.threads), a.dtype], env={**os.environ, **env}, capture_output=True, text=True)
            if out.returncode != 0:
                sys.exit("PyTorch's attention failed:\n" + out.stderr)
            peers.append(json.loads(out.stdout.splitlines()[-1]))
        for b in found:
            _, which, length, *_ = b["name"].split("/")
            key = which.removesuffix("_" + a.dtype) + "/" + length
            mine.setdefault(key, []).append(b["real_time"])
            theirs.setdefault(key, []).append(1e3 * min(p[key] for p in peers))
            ratios.setdefault(key, []).append(theirs[key][-1] / mine[key][-1])
    for key, r in ratios.items():
        spread = (max(r) - min(r)) / median(r)
        verdict = f": no verdict, rounds differ by {100 * spread:.0f} %" if spread > 0.2 else ""
        print(f"attention {key}, {a.dtype}, {a.threads} threads: {median(mine[key]):.1f} ms, PyTorch {median(theirs[key]):.1f} ms, ratio {median(r):.2f} ({min(r):.2f} to {max(r):.2f}){verdict}")


def attention(kernels):
    mine = json.loads(subprocess.run([kernels, "--benchmark_filter=attention", "--benchmark_format=json"], capture_output=True, text=True, check=True).stdout)
    found = subprocess.run([sys.executable, "-c", ATTENTION_PEER], env=surroundings(), capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit("PyTorch's attention failed:\n" + found.stderr)
    peers = json.loads(found.stdout.splitlines()[-1])
    for b in mine["benchmarks"]:
        key = b["name"].removeprefix("attention/").split("/iterations")[0]
        seconds = b["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[b["time_unit"]]
        if key in peers:
            print(f"attention {key}: {b['FLOP/s'] / 1e12:.0f} TFLOP/s, ratio {peers[key][0] / seconds:.2f} against {peers[key][1]}")


def attempt(work):
    """Tokens a second, or 0 where the micro-batch does not fit."""
    try:
        return work()
    except (SystemExit, RuntimeError) as e:
        print(f"    left out: {str(e).splitlines()[-1][:160]}", file=sys.stderr)
        return 0


def on_gpu(a, folder):
    for name, model in GPU_MODELS.items():
        if a.model not in (None, name):
            continue
        share = lambda rate: rate * (6 * model["parameters"] + 12 * model["layers"] * model["hidden"] * model["sequence"]) / 989.4e12
        best = {"train": (0, 0), "PyTorch, eager": (0, 0), "PyTorch, compiled": (0, 0)}
        for batch in a.micro_batches:
            m = {**model, "batch": batch, "device": "cuda"}
            suited = {**m, "vocabulary": 50304}
            found = {
                "train": attempt(lambda: ours(a.train, m, a.data, a.threads, a.steps, folder, ("--device", "cuda", "--dtype", "bf16"))),
                "PyTorch, eager": attempt(lambda: peer(suited, a.threads, a.steps, {})["tokens"]),
                "PyTorch, compiled": attempt(lambda: peer({**suited, "compile": True}, a.threads, a.steps, {})["tokens"]),
            }
            print(f"    {name}, micro-batch {batch}: " + ", ".join(f"{who} {rate:.0f} tokens/s" for who, rate in found.items()), file=sys.stderr, flush=True)
            best = {who: max(best[who], (rate, batch)) for who, rate in found.items()}
        for who, (rate, batch) in best.items():
            ratio = f", ratio {best['train'][0] / rate:.2f}" if who != "train" and rate > 0 else ""
            print(f"{name}: {who}: {rate:.0f} tokens/s at micro-batch {batch}, {100 * share(rate):.1f} % of 989.4 TFLOP/s{ratio}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--train")
    p.add_argument("--data")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--our-gemm", type=float, default=0, help="GFLOP/s of our product at 1024 x 768 x 3072 (bench_kernels_gemm), for the 60 %% rule")
    p.add_argument("--kernels", help="bench_kernels_gpu, to compare attention too; on a processor bench_kernels_attention, for attention alone")
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="on a processor")
    p.add_argument("--model", choices=sorted({*MODELS, *GPU_MODELS}), help="this model alone")
    p.add_argument("--micro-batches", type=lambda text: [int(n) for n in text.split(",")], default=[4, 8, 16, 32], help="to try on a GPU")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    a = p.parse_args()
    if a.model and a.model not in (GPU_MODELS if a.device == "cuda" else MODELS):
        p.error(f"--model {a.model} is not compared on this device")
    if (a.train is None or a.data is None) and (a.device == "cuda" or a.kernels is None):
        p.error("--train and --data are needed, or on a processor --kernels")
    if a.device == "cuda":
        if a.kernels:
            attention(a.kernels)
        with tempfile.TemporaryDirectory() as folder:
            return on_gpu(a, folder)
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "vendor.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", shim, "-"], input="int mkl_serv_intel_cpu_true(void) { return 1; }\n", text=True, check=True)
        keep = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 33)}
        ways = {"as installed": {}, "memory kept": keep, "memory kept, vendor check answered": {**keep, "LD_PRELOAD": shim}}
        if a.kernels:
            attention_on_cpu(a, ways)
        for name, model in MODELS.items() if a.train else ():
            if a.model not in (None, name):
                continue
            rates, gemms = {w: [] for w in ways}, {w: [] for w in ways}
            mine = []
            for _ in range(a.rounds):
                mine.append(ours(a.train, model, a.data, a.threads, a.steps, folder, ("--device", "cpu", "--dtype", a.dtype)))
                for way, env in ways.items():
                    r = peer({**model, "dtype": a.dtype}, a.threads, a.steps, env)
                    rates[way].append(r["tokens"])
                    gemms[way].append(r["gemm"])
            print(f"{name}, {a.dtype}: train {median(mine):.0f} tokens/s on {a.threads} threads (ordered reduction, one process)")
            for way in ways:
                valid = a.our_gemm == 0 or median(gemms[way]) >= 0.6 * a.our_gemm
                ratios = [m / r for m, r in zip(mine, rates[way])]
                spread = (max(ratios) - min(ratios)) / median(ratios)
                ratio = f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                if spread > 0.2:
                    ratio += f": no verdict, rounds differ by {100 * spread:.0f} %"
                if not valid:
                    ratio = "no ratio (its GEMM is below 60 % of ours)"
                print(f"  PyTorch {r['version']} ({r['blas']}), {way}: {median(rates[way]):.0f} tokens/s, GEMM {median(gemms[way]):.0f} GFLOP/s: {ratio}; fastest rounds {max(mine):.0f} and {max(rates[way]):.0f} tokens/s")


if __name__ == "__main__":
    main()
