#!/usr/bin/env python3
"""Attention on the CPU: ours, dense and of a layout with an eighth of the blocks, against PyTorch's fused dense kernel and its FlexAttention, by turns in one run.

    python3 bench/compare_attention.py --kernels build/release/bin/bench_kernels_attention_blocks [--threads 2] [--rounds 3]

Run it with a Python that has torch. One sequence of 8192 tokens, 12 heads of 64, f32, causal, forward and backward; a layout of sliding windows of 8 blocks of 64. Each
round starts each program once; ratios are medians over rounds of PyTorch's seconds over ours, with the least and the greatest. PyTorch is given MKL's fast path
as in compare_pytorch.py. FlexAttention is compiled with the same blocks, and left out, with its reason, where this PyTorch cannot.
"""
import argparse, json, os, subprocess, sys, tempfile
from statistics import median

PEER = r'''
import json, sys, time, torch, torch.nn.functional as F
threads = int(sys.argv[1]); torch.set_num_threads(threads); torch.manual_seed(1)
L, H, D, W = 8192, 12, 64, 8 * 64
q, k, v, g = (torch.randn(1, H, L, D) for _ in range(4))
for x in (q, k, v): x.requires_grad_(True)
def least(work):
    work(); times = []
    for _ in range(2):
        t = time.perf_counter(); work(); times.append(time.perf_counter() - t)
    return min(times)
def both(name, call):
    try:
        plain = [x.detach() for x in (q, k, v)]   # FlexAttention refuses inputs that want gradients, which it has none of on a CPU
        with torch.no_grad(): out[name + "/forward"] = least(lambda: call(*plain))
        o = call(q, k, v)
        out[name + "/backward"] = least(lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True))
    except Exception as e:
        out.setdefault("left out", []).append(name + ": " + (str(e).strip() or type(e).__name__).splitlines()[0][:160])
out = {"version": torch.__version__}
both("dense", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
try:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i // 64 - j // 64 < 8), None, None, L, L, device="cpu", BLOCK_SIZE=64)
    flex = torch.compile(flex_attention)
    both("flex", lambda q, k, v: flex(q, k, v, block_mask=mask))
except Exception as e:
    out.setdefault("left out", []).append("flex: " + str(e).splitlines()[0][:160])
print(json.dumps(out))
'''


def ours(kernels, threads):
    wanted = "dense|sliding_eighth"
    run = subprocess.run([kernels, f"--benchmark_filter=({wanted})/causal/block:64/threads:{threads}", "--benchmark_min_time=1", "--benchmark_format=json"],
                         capture_output=True, text=True, check=True)
    out = {}
    for b in json.loads(run.stdout)["benchmarks"]:
        back, layout = b["name"].split("/")[:2]
        out[f"{layout}/{back}"] = b["real_time"] * 1e-3
        if layout != "dense":
            out["density"] = b["density"]
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--kernels", required=True)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    mine, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "vendor.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", shim, "-"], input="int mkl_serv_intel_cpu_true(void) { return 1; }\n", text=True, check=True)
        for _ in range(a.rounds):
            mine.append(ours(a.kernels, a.threads))
            found = subprocess.run([sys.executable, "-c", PEER, str(a.threads)], capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": shim})
            if found.returncode != 0:
                sys.exit("PyTorch failed:\n" + found.stderr)
            theirs.append(json.loads(found.stdout.splitlines()[-1]))
    print(f"PyTorch {theirs[0]['version']}, {a.threads} threads, density {mine[0]['density']:.4f}")
    for reason in theirs[0].get("left out", []):
        print("left out: " + reason)
    for peer in ("dense", "flex"):
        for layout in ("dense", "sliding_eighth") if peer == "dense" else ("sliding_eighth",):
            for back in ("forward", "backward"):
                if any(f"{peer}/{back}" not in t for t in theirs):
                    continue
                ratios = [t[f"{peer}/{back}"] / m[f"{layout}/{back}"] for m, t in zip(mine, theirs)]
                seconds = median(m[f"{layout}/{back}"] for m in mine)
                print(f"{back}: {layout} {seconds:.3f} s, {median(ratios):.2f} times as fast as PyTorch's {peer} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
