#!/usr/bin/env python3
"""Makes the golden file of tests/engine/grad_scaler_test.cpp with PyTorch: grad-scaler.json.

    python3 tests/golden/grad_scaler.py [OUTPUT_FOLDER]

Steps of a small GPT-2 as users of PyTorch train it in fp16: torch.autocast(dtype=torch.float16), the scaled mean loss, torch.amp.GradScaler, which unscales the
gradients, clip_grad_norm_, and AdamW. Weights and text are those that the C++ code makes (pytorch_golden.py, and the formula below).

Autocast computes the gradient of a weight as a product in float16, and Trainyard in f32. So the file is of use only if overflows begin in gradients of activations: the
script ends with an error if one begins elsewhere, or if one that decides a step is near the border. A large epsilon of the norms keeps the inputs of products small, and with
them the gradients of weights. Linear layers have no biases, whose gradients are sums in float16 there.
"""
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

from pytorch_golden import initial

LARGEST = 65520.0  # what rounds to infinity in float16


def documents():
    """Documents of 150 bytes and an end (256) each, back to back. A byte follows from the one before."""
    return np.array([t for d in range(40) for t in [32 + (d * 5 + 7 * i) % 101 for i in range(150)] + [256]], np.int64)


def batch(tokens, step, r):
    """Inputs and targets [sequences, T]; windows of T + 1 tokens begin every T tokens."""
    b, t = r["global_batch"], r["sequence"]
    rows = np.stack([tokens[s * t:s * t + t + 1] for s in range(step * b, step * b + b)])
    return torch.tensor(rows[:, :-1]), torch.tensor(rows[:, 1:])


def gpt2(c, p, tokens):
    """Logits [sequences, T, V]."""
    def norm(x, name):
        return F.layer_norm(x, (c["hidden"],), p[name + ".weight"], p[name + ".bias"], c["norm_epsilon"])

    def linear(x, name):
        return F.linear(x, p[name + ".weight"])

    b, t = tokens.shape
    x = F.embedding(tokens, p["embedding.tokens.weight"]) + p["embedding.positions.weight"][:t]
    for i in range(c["layers"]):
        l = "layers.%02d." % i
        n = norm(x, l + "attention_norm")
        q, k, v = (linear(n, l + "attention." + name).view(b, t, c["heads"], -1).transpose(1, 2) for name in "qkv")
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(a.transpose(1, 2).reshape(b, t, -1), l + "attention.output")
        x = x + linear(F.gelu(linear(norm(x, l + "ffn_norm"), l + "ffn.up"), approximate="tanh"), l + "ffn.down")
    return F.linear(norm(x, "head.norm"), p["head.weight"])


def run(c, r):
    tokens = documents()
    p = {k: torch.tensor(v).requires_grad_() for k, v in initial(c, r["seed"]).items()}
    products = [k for k, v in p.items() if v.dim() == 2 and not k.startswith("embedding.")]
    optimizer = torch.optim.AdamW([{"params": [p[k] for k in products], "weight_decay": r["weight_decay"]},
                                   {"params": [v for k, v in p.items() if k not in products], "weight_decay": 0.0}],
                                  lr=r["learning_rate"], betas=(r["beta1"], r["beta2"]), eps=r["epsilon"])
    scaler = torch.amp.GradScaler("cpu", init_scale=r["init_scale"], growth_factor=2.0, backoff_factor=0.5, growth_interval=r["growth_interval"])
    steps = []
    for step in range(r["steps"]):
        inputs, targets = batch(tokens, step, r)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = gpt2(c, p, inputs)
            each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            loss = each.mean()
        assert logits.dtype == torch.float16
        logits.retain_grad()
        scale = scaler.get_scale()
        scaler.scale(loss).backward()
        largest, of = max((float(p[k].grad.abs().nan_to_num(9e9).max()), k) for k in products)
        scaler.unscale_(optimizer)
        norm = float(torch.nn.utils.clip_grad_norm_(list(p.values()), r["clip"]))
        before = p["head.norm.weight"].detach().clone()
        scaler.step(optimizer)
        scaler.update()
        skipped = bool((p["head.norm.weight"] == before).all())
        # What float64 says of the logits' gradients: is the largest of them above what float16 holds?
        nll = F.cross_entropy(logits.detach().double().flatten(0, 1), targets.flatten(), reduction="none")
        wanted = float((1 - torch.exp(-nll)).max()) * scale / targets.numel()
        assert skipped == (not torch.isfinite(logits.grad).all()), "step %d: the overflow begins elsewhere" % (step + 1)
        assert skipped == (wanted >= LARGEST)
        assert skipped or largest < LARGEST / 1.3, "step %d: a gradient of a weight is near its limit" % (step + 1)
        print(step + 1, scale, skipped, float(loss.detach()), norm, "largest gradients: logits %.6g, %s %.6g" % (wanted, of, largest))
        steps.append({"loss": float(loss.detach()), "norm": norm, "scale": scale, "skipped": skipped})
    return steps, scaler.get_scale()


def rounded(x, digits=8):
    return float("%.*g" % (digits, x))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    c = {"layers": 2, "hidden": 32, "heads": 4, "kv_heads": 4, "ffn": 64, "vocabulary": 257, "context": 16, "norm": "layer", "norm_epsilon": 1.0, "biases": False,
         "tied": False}
    # 64 targets in a step: a power of two, so that both sides have the same factor at a token.
    r = {"seed": 77, "global_batch": 4, "micro_batch": 4, "sequence": 16, "steps": 22, "learning_rate": 0.003, "beta1": 0.85, "beta2": 0.98, "epsilon": 1e-8, "weight_decay": 0.1,
         "clip": 0.6, "init_scale": 2.0**27, "growth_interval": 5}
    steps, last = run(c, r)
    page = {"made_by": "tests/golden/grad_scaler.py, torch " + torch.__version__.split("+")[0], "model": c, "run": r, "last_scale": last,
            "steps": [[rounded(s["loss"]), rounded(s["norm"]) if math.isfinite(s["norm"]) else None, s["scale"], s["skipped"]] for s in steps]}
    with open(os.path.join(where, "grad-scaler.json"), "w") as out:
        out.write(json.dumps(page).replace('], "', '],\n "').replace('}, "', '},\n "').replace("], [", "],\n  [") + "\n")
