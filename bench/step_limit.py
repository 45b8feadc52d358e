#!/usr/bin/env python3
"""How close a training step comes to the machine: its FLOP/s beside multiply-adds in registers, and beside the best that any library here makes of its products.

    python3 bench/step_limit.py --threads 2 --rounds 3 -- build/release/bin/train --model gpt2 --data DATA --steps 4 --sequence 256 --global-batch 4 --micro-batch 4

What follows -- is a `train` command on one process; --threads, --output, --profile-step and what keeps it quiet are added. Each round runs it once and then every library found
here on the shapes that the run's own profile lists: oneDNN and OpenBLAS as Debian has them (f32), and PyTorch, if this Python has it, as installed and with MKL's vendor check
answered 'yes' by a one-line library made here (f32 by MKL, bf16 by its own oneDNN). A shape takes a library the least of five calls in the fastest of three layouts (y = x W^T,
dx = dy W, dW = dy^T x). For each shape the fastest library counts. Products of groups have no shape and are left out of that comparison. Medians over rounds; no verdict where
rounds differ by more than 20 %.
"""
import argparse, json, os, re, subprocess, sys, tempfile
from statistics import median

LIBRARY = r'''
import ctypes, ctypes.util, json, sys, time
import numpy as np
name, threads, shapes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
layouts = ((False, True), (False, False), (True, False))  # which operand lies turned over
def least(call):
    call(); times = []
    for _ in range(5):
        t = time.perf_counter(); call(); times.append(time.perf_counter() - t)
    return min(times)
def by_torch():
    import torch
    torch.set_num_threads(threads); torch.manual_seed(1)
    def of(m, n, k, bf16):
        kind = torch.bfloat16 if bf16 else torch.float32
        out = torch.empty(m, n, dtype=kind)
        for ta, tb in layouts:
            a = torch.randn(k, m).to(kind).t() if ta else torch.randn(m, k).to(kind)
            b = torch.randn(n, k).to(kind).t() if tb else torch.randn(k, n).to(kind)
            yield least(lambda: torch.mm(a, b, out=out))
    return of
def by_c(library, call):
    f = ctypes.CDLL(ctypes.util.find_library(library))
    def of(m, n, k, bf16):
        if bf16: return
        rng = np.random.default_rng(1)
        a, b = (rng.standard_normal(s, dtype=np.float32) for s in (m * k, k * n))
        c = np.empty(m * n, np.float32)
        p = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c)]
        for ta, tb in layouts: yield least(lambda: call(f, ta, tb, m, n, k, m if ta else k, k if tb else n, p))
    return of
def onednn(f, ta, tb, m, n, k, lda, ldb, p):
    i, one = ctypes.c_int64, ctypes.c_float
    f.dnnl_sgemm(ctypes.c_char(b"NT"[ta:ta + 1]), ctypes.c_char(b"NT"[tb:tb + 1]), i(m), i(n), i(k), one(1), p[0], i(lda), p[1], i(ldb), one(0), p[2], i(n))
def openblas(f, ta, tb, m, n, k, lda, ldb, p):
    f.cblas_sgemm(101, 112 if ta else 111, 112 if tb else 111, m, n, k, ctypes.c_float(1), p[0], lda, p[1], ldb, ctypes.c_float(0), p[2], n)
of = {"PyTorch": by_torch, "oneDNN": lambda: by_c("dnnl", onednn), "OpenBLAS": lambda: by_c("openblas", openblas)}[name]()
print(json.dumps([min(of(*s), default=None) for s in shapes]))
'''


def libraries(folder, threads):
    """Name, library of the child, environment, of those that are here."""
    shim = os.path.join(folder, "vendor.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", shim, "-"], input="int mkl_serv_intel_cpu_true(void) { return 1; }\n", text=True, check=True)
    team = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    all_of_them = [("oneDNN", "oneDNN", team), ("OpenBLAS", "OpenBLAS", team), ("PyTorch", "PyTorch", team), ("PyTorch, vendor check answered", "PyTorch", {**team, "LD_PRELOAD": shim})]
    here = []
    for name, child, env in all_of_them:
        tried = measure(child, threads, [[8, 8, 8, False]], env)
        if tried is None:
            print(f"left out: {name}, which is not here", file=sys.stderr)
        else:
            here.append((name, child, env))
    return here


def measure(child, threads, shapes, env):
    out = subprocess.run([sys.executable, "-c", LIBRARY, child, str(threads), json.dumps(shapes)], env={**os.environ, **env}, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1]) if out.returncode == 0 else None


def profile(command, threads, folder):
    """The step's ms, GFLOP/s and share of the peak; ms and GFLOP/s of all products; m, n, k, bf16, calls and ms of each shape."""
    run = tempfile.mkdtemp(dir=folder)
    text = subprocess.run([*command, "--threads", str(threads), "--output", run, "--profile-step", "--save-every", "0", "--progress", "never", "--device", "cpu"], capture_output=True, text=True)
    if text.returncode != 0:
        sys.exit("the run failed:\n" + text.stderr)
    line = lambda name: re.search(rf"^{name} +([\d.]+) +[\d.]+ %(?: +[\d.]+)? +([\d.]+) +(\d+) %", text.stdout, re.M)
    step, products = line("step"), line("products")
    if step is None or products is None:
        sys.exit("no profile with products in what the run printed:\n" + text.stdout)
    shapes = [([int(m), int(n), int(k), bool(bf16)], float(calls), float(ms)) for m, n, k, bf16, ms, calls in
              re.findall(r"^(\d+) x (\d+) over (\d+)(, bf16)? +([\d.]+) +[\d.]+ % +([\d.]+) ", text.stdout, re.M)]
    return [float(x) for x in step.groups()], [float(x) for x in products.groups()], shapes


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("command", nargs="+", help="train and its flags, behind --")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = libraries(folder, a.threads)
        rounds, by_shape = [], {}
        for _ in range(a.rounds):
            step, products, shapes = profile(a.command, a.threads, folder)
            times = {name: measure(child, a.threads, [s for s, _, _ in shapes], env) for name, child, env in here}
            flop = best = ours = 0
            for i, (shape, calls, ms) in enumerate(shapes):
                found = {name: t[i] for name, t in times.items() if t is not None and t[i] is not None}
                if not found:
                    continue
                name = min(found, key=found.get)
                by_shape.setdefault(tuple(shape), []).append((ms / calls, found[name] * 1e3, name, calls))
                flop += 2 * shape[0] * shape[1] * shape[2] * calls
                best += found[name] * calls
                ours += ms * 1e-3
            if flop == 0:
                sys.exit("no library here multiplies what this run does")
            rounds.append((step[1] / 1e3, step[2], flop / best / 1e12, best / ours, step[1] * 1e9 / (flop / best)))
        print(f"{'rows x columns over steps':<32}{'calls':>7}{'ours, ms':>11}{'best, ms':>11}{'ratio':>8}  library")
        for (m, n, k, bf16), r in sorted(by_shape.items(), key=lambda x: -median([ours * c for ours, _, _, c in x[1]])):
            mine, best = median([x[0] for x in r]), median([x[1] for x in r])
            print(f"{f'{m} x {n} over {k}' + (', bf16' if bf16 else ''):<32}{r[0][3]:>7.0f}{mine:>11.3f}{best:>11.3f}{best / mine:>8.2f}  {r[len(r) // 2][2]}")
        verdict = lambda xs: f"{median(xs):.2f} ({min(xs):.2f} to {max(xs):.2f})" + (": no verdict" if (max(xs) - min(xs)) / median(xs) > 0.2 else "")
        print(f"step: {median([r[0] for r in rounds]):.3f} TFLOP/s, {median([r[1] for r in rounds]):.0f} % of multiply-adds in registers")
        print(f"best library on the step's own shapes: {median([r[2] for r in rounds]):.3f} TFLOP/s")
        print(f"products of the step over the best library's: {verdict([r[3] for r in rounds])}")
        print(f"step over the best library's products: {verdict([r[4] for r in rounds])}")


if __name__ == "__main__":
    main()
