#!/usr/bin/env python3
"""Makes the golden files of tests/engine/pytorch_update_test.cpp with PyTorch: update-layer.json, update-rms.json,
update-adam.json, update-adafactor.json.

    python3 tests/golden/engine_update.py [OUTPUT_FOLDER]

Forty steps of the engine's whole update, every number away from its default: gradients of the loss sum over windows of a text with document ends, divided by the count of
targets that the mask leaves, clipped by norm, AdamW (torch.optim.AdamW, weight decay on some parameters only; in update-adam.json
torch.optim.Adam, whose weight decay is added to gradients; in update-adafactor.json torch.optim.Adafactor with the paper's epsilons), a warm-up and a cosine. The models are those of
pytorch_golden.py, plainly written, in float64; a float32 run beside it says how far rounding alone goes. Each file holds the settings, loss, norm, count of targets and
learning rate of each step, and for a few steps what each parameter became: its sum, how far it is from where it began, and two of its values.
"""
import json
import math
import os
import sys

import numpy as np
import torch

from pytorch_golden import forward, initial, masked

SHOWN = [1, 8, 21, 40]


def documents():
    """The text: documents of 9 to 31 bytes and an end (256) each, back to back; windows of T + 1 tokens begin every T tokens."""
    out = []
    for d in range(220):
        out += [32 + (d * 11 + (1 + d % 3) * i) % 40 for i in range(9 + d * 7 % 23)] + [256]
    return np.array(out, np.int64)


def window(tokens, sample, length, mask):
    w = tokens[sample * length:sample * length + length + 1]
    if not mask:
        return w, np.zeros(length, np.int64), np.arange(length), np.ones(length)
    start, positions, weights = masked(np.where(w == 256, 0, w + 1))   # masked() knows an end by 0
    return w, start, positions, weights


def learning_rate(r, t):
    """Of step t, counted from 1: linear warm-up, then half a cosine down to the final rate (Loshchilov and Hutter 2017)."""
    if t <= r["warmup_steps"]:
        return r["learning_rate"] * t / r["warmup_steps"]
    progress = (t - r["warmup_steps"]) / (r["steps"] - r["warmup_steps"])
    return r["final_learning_rate"] + (r["learning_rate"] - r["final_learning_rate"]) * 0.5 * (1 + math.cos(math.pi * progress))


def run(c, r, dtype):
    tokens = documents()
    first = initial(c, r["seed"])
    p = {k: torch.tensor(v).to(dtype).requires_grad_() for k, v in first.items()}
    # Decay: matrices of the layers and a head of its own. Not: embeddings, norms, biases.
    decays = {k: v.dim() == 2 and not k.startswith("embedding.") for k, v in p.items()}
    groups = [{"params": [v for k, v in p.items() if decays[k]], "weight_decay": r["weight_decay"]},
              {"params": [v for k, v in p.items() if not decays[k]], "weight_decay": 0.0}]
    name = r.get("optimizer", "adamw")
    if name == "adafactor":
        # The paper's first epsilon; float32 does not have its square, which PyTorch takes.
        o = torch.optim.Adafactor(groups, lr=1.0, beta2_decay=-r["beta2_decay"], eps=(1e-30 if dtype == torch.float64 else 1e-18, 1e-3))
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
        o = kind(groups, lr=1.0, betas=(r["beta1"], r["beta2"]), eps=r["epsilon"])
    steps, shown = [], {}
    for step in range(r["steps"]):
        total, count = 0.0, 0
        for s in range(r["global_batch"]):
            w, start, positions, weights = window(tokens, step * r["global_batch"] + s, r["sequence"], c["document_mask"])
            nll = torch.nn.functional.cross_entropy(forward(c, p, w[:-1], start, positions), torch.tensor(w[1:]), reduction="none")
            total = total + (nll * torch.tensor(weights).to(dtype)).sum()
            count += int(weights.sum())
        loss = total / count
        o.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(float((v.grad.to(torch.float64) ** 2).sum()) for v in p.values()))
        for v in p.values():
            v.grad.mul_(min(1.0, r["clip"] / (norm + 1e-6)))
        for group in o.param_groups:
            group["lr"] = learning_rate(r, step + 1)
        o.step()
        steps.append({"loss": float(loss.detach()), "norm": norm, "targets": count, "rate": learning_rate(r, step + 1)})
        if step + 1 in SHOWN:
            shown[step + 1] = {k: v.detach().to(torch.float64).numpy().copy() for k, v in p.items()}
    return steps, shown, {k: v.astype(np.float64) for k, v in first.items()}, decays


def rounded(x, digits=10):
    return float("%.*g" % (digits, x))


def make(folder, name, c, **more):
    r = {"seed": 77, "global_batch": 4, "micro_batch": 2, "sequence": 24, "steps": 40, "learning_rate": 0.01, "final_learning_rate": 0.002, "warmup_steps": 6, "beta1": 0.85,
         "beta2": 0.98, "epsilon": 1e-4, "weight_decay": 0.3, "clip": 0.6, **more}
    steps, shown, first, decays = run(c, r, torch.float64)
    rough_steps, rough, _, _ = run(c, r, torch.float32)
    page = {"made_by": "tests/golden/engine_update.py, torch " + torch.__version__.split("+")[0], "model": c, "run": r,
            "loss_error_float32": rounded(max(abs(a["loss"] / b["loss"] - 1) for a, b in zip(rough_steps, steps)), 2),
            "norm_error_float32": rounded(max(abs(a["norm"] / b["norm"] - 1) for a, b in zip(rough_steps, steps)), 2),
            "steps": [[rounded(s["loss"]), rounded(s["norm"]), s["targets"], rounded(s["rate"])] for s in steps], "parameters": {}}
    for k in first:
        flat = {t: shown[t][k].reshape(-1) for t in SHOWN}
        way = {t: float(np.linalg.norm(flat[t] - first[k].reshape(-1))) for t in SHOWN}
        page["parameters"][k] = {"decays": decays[k],
                                 "error_float32": rounded(max(np.linalg.norm(rough[t][k].reshape(-1) - flat[t]) for t in SHOWN), 2),
                                 "shown": [[t, rounded(flat[t].sum()), rounded(way[t]), rounded(flat[t][0]), rounded(flat[t][-1])] for t in SHOWN]}
    path = os.path.join(folder, "update-%s.json" % name)
    with open(path, "w") as out:
        out.write(json.dumps(page).replace('], "', '],\n "').replace('}, "', '},\n "').replace("], [", "],\n  [") + "\n")
    print(name, steps[0], steps[-1], page["loss_error_float32"], page["norm_error_float32"],
          max((v["error_float32"] / v["shown"][-1][2], k) for k, v in page["parameters"].items() if not k.endswith("k.bias")), os.path.getsize(path), "bytes; clipped", sum(s["norm"] > r["clip"] for s in steps))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    common = {"layers": 2, "hidden": 32, "heads": 4, "vocabulary": 257, "context": 24, "norm_epsilon": 2e-3, "rotary_base": 300.0}
    make(where, "layer", dict(common, norm="layer", kv_heads=4, ffn=64, biases=True, tied=True, document_mask=True))
    make(where, "rms", dict(common, norm="rms", kv_heads=2, ffn=48, biases=False, tied=False, document_mask=True))
    make(where, "adam", dict(common, norm="rms", kv_heads=2, ffn=48, biases=False, tied=False, document_mask=True), optimizer="adam", weight_decay=0.02)
    make(where, "adafactor", dict(common, norm="rms", kv_heads=2, ffn=48, biases=False, tied=False, document_mask=True), optimizer="adafactor", learning_rate=0.6, weight_decay=0.05,
         beta2_decay=0.7)
