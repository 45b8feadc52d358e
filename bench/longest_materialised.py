#!/usr/bin/env python3
"""How long a sequence PyTorch trains in a given memory when attention keeps the scores of all pairs: what block-sparse attention and ours are compared with.

    python3 bench/longest_materialised.py [--limit-gib 2] [--dtype float32] [--recompute]

Run it with a Python that has torch. The model is the one of bench/RESULTS.md: 4 layers of 256 with 4 heads, pre-norm, GELU, one sequence, one step of AdamW; attention is
softmax(q k^T + mask) v, each product a tensor of its own. --recompute wraps each layer in torch.utils.checkpoint. Memory is what a process grows by over a step
(its greatest resident size less that before the model was made), each length in a process of its own; the longest multiple of 64 is found by halving.
"""
import argparse, subprocess, sys

STEP = r'''
import resource, sys, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
L, dtype, again = int(sys.argv[1]), getattr(torch, sys.argv[2]), sys.argv[3] == "1"
torch.manual_seed(1)
class Layer(nn.Module):
    def __init__(s, h=256, heads=4):
        super().__init__()
        s.heads, s.n1, s.n2 = heads, nn.LayerNorm(h), nn.LayerNorm(h)
        s.qkv, s.out, s.up, s.down = nn.Linear(h, 3 * h), nn.Linear(h, h), nn.Linear(h, 4 * h), nn.Linear(4 * h, h)
    def forward(s, x, hidden):
        q, k, v = (t.view(-1, s.heads, 64).transpose(0, 1) for t in s.qkv(s.n1(x)).split(256, 1))
        p = torch.softmax((q @ k.transpose(1, 2) * 0.125).masked_fill(hidden, float("-inf")), -1)
        x = x + s.out((p @ v).transpose(0, 1).reshape(-1, 256))
        return x + s.down(F.gelu(s.up(s.n2(x)), approximate="tanh"))
def before():
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmRSS"))
def step(L):
    hidden = torch.ones(L, L, dtype=torch.bool).triu(1)
    words = torch.randint(0, 256, (L + 1,))
    table = nn.Embedding(256, 256, dtype=dtype)
    layers = nn.ModuleList(Layer() for _ in range(4)).to(dtype)
    adam = torch.optim.AdamW([*table.parameters(), *layers.parameters()])
    x = table(words[:-1])
    for l in layers: x = checkpoint(l, x, hidden, use_reentrant=False) if again else l(x, hidden)
    F.cross_entropy(x @ table.weight.t(), words[1:]).backward()
    adam.step()
step(64)
start = before()
step(L)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - start)
'''


def grows(a, length):
    run = subprocess.run([sys.executable, "-c", STEP, str(length), a.dtype, "1" if a.recompute else "0"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit("PyTorch failed:\n" + run.stderr)
    return int(run.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--limit-gib", type=float, default=2)
    p.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    p.add_argument("--recompute", action="store_true")
    a = p.parse_args()
    limit = a.limit_gib * 2**30
    fits, over = 1, 2
    while grows(a, 64 * over) <= limit:
        fits, over = over, 2 * over
    while over - fits > 1:
        middle = (fits + over) // 2
        if grows(a, 64 * middle) <= limit:
            fits = middle
        else:
            over = middle
    print(f"{a.dtype}, {'layers recomputed' if a.recompute else 'nothing recomputed'}: {64 * fits} tokens in {a.limit_gib:g} GiB")


main()
