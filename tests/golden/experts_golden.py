#!/usr/bin/env python3
"""Makes golden files of models with experts with PyTorch: experts-NAME.json and experts-NAME.f32 for each of the models below.

    python3 tests/golden/experts_golden.py [OUTPUT_FOLDER]
    python3 tests/golden/experts_golden.py --check

The models of pytorch_golden.py, where the feed-forward part of some layers is a mixture of experts: a loop over the experts, each applied to
the tokens that chose it and kept a place. Who goes where is found in numpy, without gradients; weights and losses are autograd's. Files are those
of pytorch_golden.py, and say for each step and layer with experts the balance and z loss (coefficient 1, mean over micro-batches by their
share of the targets, float64), how many choices were kept and dropped, and the choices of each expert before dropping; with a bias of the
choice also what it became. A gate group is a micro-batch. No choice hangs on rounding: both runs choose alike, and margins are asserted.
--check holds the gate against values that were made elsewhere, and against what must be so whatever the values are.
"""
import math
import os
import sys
from fractions import Fraction

import numpy as np
import torch

import pytorch_golden as plain

ROBUST = 1e-5


# Who goes where.

def capacity_of(tokens, k, experts, factor, least):
    """Places of each expert; the factor is the text of a decimal number, exact, or none: as many as want it."""
    if factor == "none":
        return tokens * k
    return max(math.ceil(Fraction(factor) * k * tokens / experts), least)


def uniform_numbers(seed, site, ordinals, length, experts):
    """[tokens, experts]: the number of each token of these sequences for each expert."""
    position, expert = np.arange(length, dtype=np.uint64), np.arange(experts, dtype=np.uint64)
    low = (np.array(ordinals, np.uint64)[:, None, None] << np.uint64(34)) + (position[None, :, None] << np.uint64(14)) + expert
    w = plain.philox(seed, low.reshape(-1), plain.site_hash("experts", site))
    return plain.uniform(w[0], w[1]).reshape(-1, experts)


def chosen(keys, k):
    """The k largest of each row, in descending order, ties to the lowest; and the smallest distance that decides about it."""
    order = np.argsort(-keys, axis=1, kind="stable")[:, :k + 1]
    gaps = -np.diff(np.take_along_axis(keys, order, 1), axis=1)
    return order[:, :k], float(gaps.min()) if gaps.size else math.inf


def places_of(experts, count, capacity, overflow, numbers):
    """[tokens, k]: the place of each choice among the rows of its expert, -1 where it was dropped; and the smallest distance between the
    numbers of one that was kept and one that was dropped. With two choices the first ones of all tokens come before any second one, and
    these stand behind all first ones, dropped or not."""
    places, margin = np.full(experts.shape, -1), math.inf
    k = experts.shape[1]
    for e in range(count):
        wanted = 0
        for choices in ([0], [1]) if k == 2 else [list(range(k))]:
            tokens, which = np.nonzero(experts[:, choices] == e)
            room, kept = max(capacity - wanted, 0), np.arange(len(tokens))
            if overflow != "position" and 0 < room < len(tokens):
                kept = np.argsort(-numbers[tokens, e], kind="stable")
                margin = min(margin, float(numbers[tokens[kept[room - 1]], e] - numbers[tokens[kept[room]], e]))
            kept = np.sort(kept[:room])
            places[tokens[kept], np.array(choices)[which[kept]]] = wanted + np.arange(len(kept))
            wanted += len(tokens)
    return places, margin


class Gate:
    """Of one group: experts and places [tokens, k], weights [tokens, k], balance and z loss with coefficient 1, loads."""

    def __init__(self, logits, k, capacity, overflow, score="softmax", bias=None, uniform=None):
        count = logits.shape[1]
        scores = torch.sigmoid(logits) if score == "sigmoid" else logits.softmax(-1)
        plainly = scores.detach().numpy()
        keys = logits.detach().numpy() if score == "softmax" else plainly if bias is None else plainly + bias.numpy()
        self.experts, self.margin = chosen(keys, k)
        self.places, self.cut_margin = places_of(self.experts, count, capacity, overflow, uniform if overflow == "random" else plainly)
        self.kept = self.places >= 0
        weights = scores.gather(1, torch.tensor(self.experts))
        if k > 1:
            weights = weights * torch.tensor(self.kept)
            total = weights.sum(1, keepdim=True)
            weights = weights / torch.where(total > 0, total, torch.ones_like(total))
        self.weights = weights * torch.tensor(self.kept)
        self.loads = np.bincount(self.experts.reshape(-1), minlength=count)
        counted = self.experts[:, :1] if k <= 2 else self.experts
        share = torch.tensor(np.bincount(counted.reshape(-1), minlength=count) / len(counted)).to(logits.dtype)
        p = scores if score == "softmax" else scores / scores.sum(1, keepdim=True)
        self.balance = count / counted.shape[1] * (p.mean(0) * share).sum()
        self.z = (torch.logsumexp(logits, 1) ** 2).mean()


def direction(loads):
    """Where the bias of each expert goes after a step: sign(mean load - load), in integers."""
    return np.sign(loads.sum() - loads.size * loads)


# The model.

def experts_of(c, layer):
    """How many experts a layer has; 0: none. One count is that of all layers with experts."""
    x = c["experts"]
    turn = layer - x["dense_layers"] + 1
    if layer < x["dense_layers"] or turn % x["every"] != 0:
        return 0
    return x["counts"][turn // x["every"] - 1 if len(x["counts"]) > 1 else 0]


def parameters(c, p, layer):
    x, l, count = c["experts"], "layers.%02d." % layer, experts_of(c, layer)
    if count == 0:
        return plain.dense_parameters(c, p, layer)
    p[l + "gate.weight"] = ((count, c["hidden"]), 0.02)
    if x["score"] == "sigmoid":
        p[l + "gate.bias"] = ((count,), "zeros")
    for e in range(count):
        plain.feed_forward_parameters(c, p, l + "experts.%02d" % e, x["ffn"])
    if x["shared"] > 0:
        plain.feed_forward_parameters(c, p, l + "shared", x["shared"] * x["ffn"])
    if x["residual"]:
        plain.feed_forward_parameters(c, p, l + "residual", c["ffn"])
        p[l + "mix.weight"] = ((2, c["hidden"]), 0.02)


def mixture(c, p, l, n, gate):
    out = torch.zeros_like(n)
    for e in range(gate.loads.size):
        tokens, which = (torch.tensor(i) for i in np.nonzero((gate.experts == e) & gate.kept))
        y = plain.feed_forward(c, p, n[tokens], l + "experts.%02d" % e)
        out = out.index_add(0, tokens, gate.weights[tokens, which][:, None] * y)
    if c["experts"]["shared"] > 0:
        out = out + plain.feed_forward(c, p, n, l + "shared")
    if c["experts"]["residual"]:
        mix = (n @ p[l + "mix.weight"].T).softmax(-1)
        out = mix[:, :1] * out + mix[:, 1:] * plain.feed_forward(c, p, n, l + "residual")
    return out


def forward(c, p, seed, ordinals, sequences):
    """Logits [tokens, V] of a micro-batch and the gates of its layers; a sequence is (tokens, document starts, positions)."""
    length = len(sequences[0][0])
    x = torch.cat([plain.embed(c, p, tokens, positions) for tokens, _, positions in sequences])
    gates = {}
    for layer in range(c["layers"]):
        l, count, e = "layers.%02d." % layer, experts_of(c, layer), c["experts"]
        x = x + torch.cat([plain.attention(c, p, layer, part, start, positions)
                           for part, (_, start, positions) in zip(x.split(length), sequences)])
        n = plain.norm(c, p, x, l + "ffn_norm")
        if count == 0:
            x = x + plain.feed_forward(c, p, n, l + "ffn")
            continue
        gates[layer] = gate = Gate(n @ p[l + "gate.weight"].T, e["top_k"], capacity_of(len(n), e["top_k"], count, e["capacity"], e["min_capacity"]),
                                   e["overflow"], e["score"], p.get(l + "gate.bias"),
                                   uniform_numbers(seed, l + "overflow", ordinals, length, count))
        x = x + mixture(c, p, l, n, gate)
    return plain.head(c, p, x), gates


def sequence(c, step, index, length):
    """(tokens, document starts, positions), targets, weights. Later sequences of a step have more documents, so that micro-batches differ in
    the count of their targets."""
    w = plain.window(c, step, index, length)
    start, positions, weights = np.zeros(length, np.int64), np.arange(length), np.ones(length)
    if c["document_mask"]:
        if index >= 2:
            w[14:length:2] = 0
        start, positions, weights = plain.masked(w)
    return (w[:-1], start, positions), w[1:], weights


class Run:
    def __init__(self, c, setting, dtype):
        self.c, self.setting, self.dtype = c, setting, dtype
        values = plain.initial(c, setting["seed"], parameters)
        self.p = {k: torch.tensor(v).to(dtype) for k, v in values.items()}
        self.learned = {k: v.requires_grad_() for k, v in self.p.items() if not k.endswith("gate.bias")}
        self.optimizer = plain.adamw(self.learned, setting)
        self.losses, self.norms, self.layers, self.first = [], [], [], None
        self.choices, self.margin, self.cut_margin = [], math.inf, math.inf
        for step in range(setting["steps"]):
            self.step(step)

    def step(self, step):
        x, s = self.c["experts"], self.setting
        total, extra, count, micros = 0.0, 0.0, 0, []
        for micro in range(s["batch"] // s["micro_batch"]):
            indices = range(micro * s["micro_batch"], (micro + 1) * s["micro_batch"])
            inputs, targets, weights = zip(*(sequence(self.c, step, i, s["sequence"]) for i in indices))
            logits, gates = forward(self.c, self.p, s["seed"], [step * s["batch"] + i for i in indices], inputs)
            nll = torch.nn.functional.cross_entropy(logits, torch.tensor(np.concatenate(targets)), reduction="none")
            weights = np.concatenate(weights)
            total = total + (nll * torch.tensor(weights).to(self.dtype)).sum()
            counted = int(weights.sum())
            extra = extra + counted * sum(x["balance"] * g.balance + x["z"] * g.z for g in gates.values())
            count += counted
            micros.append((counted, gates))
        self.optimizer.zero_grad()
        ((total + extra) / count).backward()
        self.losses.append(float((total / count).detach()))
        if self.first is None:
            self.first = dict({k: np.zeros(v.shape) for k, v in self.p.items()}, **plain.gradients(self.learned))
        self.norms.append(plain.clip(self.learned, s))
        self.optimizer.step()
        self.layers.append({"layers.%02d" % layer: self.page_of(layer, [(n, g[layer]) for n, g in micros]) for layer in micros[0][1]})

    def page_of(self, layer, micros):
        """What the step says of a layer, when the bias of its choice has been moved."""
        count = sum(n for n, _ in micros)
        loads = sum(g.loads for _, g in micros)
        page = {"balance": sum(n / count * float(g.balance.detach()) for n, g in micros),
                "z": sum(n / count * float(g.z.detach()) for n, g in micros), "kept": int(sum(g.kept.sum() for _, g in micros)),
                "dropped": int(sum((~g.kept).sum() for _, g in micros)), "loads": loads.tolist()}
        bias = self.p.get("layers.%02d.gate.bias" % layer)
        if bias is not None:
            bias += self.c["experts"]["bias_rate"] * torch.tensor(direction(loads)).to(bias.dtype)
            page["bias"] = bias.tolist()
        for _, g in micros:
            self.choices.append((g.experts, g.places))
            self.margin, self.cut_margin = min(self.margin, g.margin), min(self.cut_margin, g.cut_margin)
        return page


def make(folder, name, config, seed):
    setting = dict(plain.SETTING, seed=seed, batch=4, micro_batch=2)
    single, double = Run(config, setting, torch.float32), Run(config, setting, torch.float64)
    page = {"made_by": "tests/golden/experts_golden.py", "model": config, "run": setting, "losses": single.losses,
            "losses_float64": double.losses, "gradient_norms": single.norms, "layers": double.layers}
    assert all((a == b).all() for one, two in zip(single.choices, double.choices) for a, b in zip(one, two)), "float32 chooses otherwise"
    assert min(double.margin, double.cut_margin) > ROBUST, "a choice hangs on rounding"
    for one, two in zip(single.layers, double.layers):
        for layer in two:
            assert all(abs(one[layer][k] - two[layer][k]) < 1e-5 * two[layer][k] for k in ("balance", "z")), layer
    plain.write(folder, "experts-" + name, page, plain.initial(config, seed, parameters), single.first, double.first)
    print("  margins: choice %.2g, cut %.2g; dropped in each step: %s" % (
        double.margin, double.cut_margin, [sum(l["dropped"] for l in step.values()) for step in double.layers]))


EXPERTS = {"counts": [4], "every": 1, "dense_layers": 0, "top_k": 2, "ffn": 32, "capacity": "none", "min_capacity": 1, "overflow": "position",
           "score": "softmax", "bias_rate": 0.0, "balance": 0.01, "z": 0.0, "shared": 0, "residual": False}


def model(shape, experts, **other):
    return dict(plain.COMMON, **shape, **other) | {"experts": dict(EXPERTS, **experts)}


MODELS = {   # and the seed
    "top1": (model(dict(plain.GPT, ffn=64), {"every": 2, "top_k": 1, "ffn": 64, "capacity": "1.25", "z": 0.001}) | {"layers": 3}, 44),
    "top2": (model(dict(plain.GPT, ffn=64), {"capacity": "1.0", "residual": True}), 69),
    "random": (model(plain.GPT, {"counts": [2, 4], "top_k": 1, "capacity": "1", "overflow": "random"}), 32),
    "mixtral": (model(plain.LLAMA, {"balance": 0.02, "z": 0.001}), 56),
    "deepseek": (model(plain.LLAMA, {"counts": [8], "dense_layers": 1, "top_k": 3, "ffn": 16, "shared": 2, "capacity": "1.5",
                                     "overflow": "probability"}) | {"layers": 3}, 21),
    "sigmoid": (model(plain.LLAMA, {"score": "sigmoid", "bias_rate": 0.01, "z": 0.001}), 28),
}


# What the gate is held against.

LOGITS = [[.11, .2, .1, .3], [.3, .4, .11, .1], [.11, .1, .6, .5], [.1, .11, .7, .8], [.9, .1, .2, .3], [.5, .9, .1, .2], [.2, .3, .95, .1],
          [.05, .4, .3, .2]]
# Of existing systems, for these logits: (token, expert, place, weight).
TOP1 = [(0, 3, 0, .281648), (1, 1, 0, .294645), (2, 2, 0, .320103), (3, 3, 1, .344471), (4, 0, 0, .400846), (5, 1, 1, .382229),
        (6, 2, 1, .412911), (7, 1, 2, .291693)]
TOP2 = [(0, 1, 3, .475021), (0, 3, 0, .524979), (1, 0, 1, .475021), (1, 1, 0, .524979), (2, 2, 0, .524979), (2, 3, 2, .475021),
        (3, 2, 2, .475021), (3, 3, 1, .524979), (4, 0, 0, .645656), (4, 3, 3, .354344), (5, 0, 2, .401312), (5, 1, 1, .598688),
        (6, 2, 1, 1.0), (7, 1, 2, .524979), (7, 2, 3, .475021)]
TOP3 = [(0, 0, 0, .302716), (0, 1, 0, .331224), (0, 3, 0, .366059), (1, 0, 1, .341049), (1, 1, 1, .376917), (1, 2, 0, .282034),
        (2, 0, 2, .243351), (2, 2, 1, .397225), (2, 3, 1, .359424), (3, 1, 2, .208433), (3, 2, 2, .376011), (3, 3, 2, .415556)]


def entries(gate):
    return sorted((s, int(gate.experts[s, j]), int(gate.places[s, j]), float(gate.weights[s, j])) for s, j in zip(*np.nonzero(gate.kept)))


def check_values():
    logits = torch.tensor(LOGITS, dtype=torch.float64)
    for k, factor, least, want, loads, balance in ((1, "1", 4, TOP1, [1, 3, 2, 2], 1.0038546), (2, "1", 1, TOP2, [3, 5, 4, 4], None),
                                                   (3, ".5", 1, TOP3, [6, 6, 6, 6], 1.0)):
        gate = Gate(logits, k, capacity_of(8, k, 4, factor, least), "position")
        got = entries(gate)
        assert [g[:3] for g in got] == [w[:3] for w in want], (k, got)
        assert max(abs(g[3] - w[3]) for g, w in zip(got, want)) < 1e-6, (k, got)
        assert gate.loads.tolist() == loads, (k, gate.loads)
        assert balance is None or abs(float(gate.balance) - balance) < 1e-7, (k, float(gate.balance))
    for case, want in (((50, 1, 4, "1.2", 1), 15), ((100, 1, 1, "1.1", 1), 110), ((10, 1, 4, "1", 1), 3), ((8, 1, 4, "1", 4), 4),
                       ((8, 3, 4, ".5", 1), 3), ((8, 2, 4, "none", 1), 16)):
        assert capacity_of(*case) == want, case
    # Equal scores: the lowest experts, and of equal tokens the first.
    gate = Gate(torch.zeros(6, 4, dtype=torch.float64), 3, 2, "probability")
    assert (gate.experts == [0, 1, 2]).all() and (gate.places[:2] == [[0] * 3, [1] * 3]).all() and (gate.places[2:] == -1).all()
    # A bias moves the choice and no weight: scores of the choice divided by their sum.
    bias = torch.tensor([0, 0, 0, 1.0], dtype=torch.float64)
    gate, scores = Gate(logits, 2, 16, "position", "sigmoid", bias), 1 / (1 + np.exp(-np.array(LOGITS)))
    for s in range(8):
        e = int(scores[s, :3].argmax())
        assert gate.experts[s].tolist() == [3, e]
        assert abs(float(gate.weights[s, 1]) - scores[s, e] / (scores[s, e] + scores[s, 3])) < 1e-12
    # Losses without a value from elsewhere: two choices, and shares of sigmoid scores.
    softmax, lengths = np.exp(LOGITS) / np.exp(LOGITS).sum(1)[:, None], np.log(np.exp(LOGITS).sum(1))
    for score, p in (("softmax", softmax), ("sigmoid", scores / scores.sum(1)[:, None])):
        gate = Gate(logits, 2, 4, "position", score)
        assert abs(float(gate.balance) - 4 * (p.mean(0) * np.array([1, 3, 2, 2]) / 8).sum()) < 1e-12
        assert abs(float(gate.z) - (lengths**2).mean()) < 1e-12


def check_places():
    """Every rule of overflow against its definition, token by token, for logits of all kinds of crowding."""
    for case in range(40):
        k, count, capacity = 1 + case % 4, 5, 2 + case % 7
        rule = ("position", "random", "probability")[case % 3]
        logits = torch.tensor(plain.normal(case, "logits", 24 * count).reshape(24, count) + np.linspace(0, 1, count))
        numbers = uniform_numbers(case, "layers.00.overflow", [3, 2**29 + case], 12, count)
        gate, p = Gate(logits, k, capacity, rule, uniform=numbers), logits.softmax(-1).numpy()
        assert gate.kept.sum() + (~gate.kept).sum() == 24 * k and gate.kept.sum() <= count * capacity
        for e in range(count):
            firsts, seen = [s for s in range(24) if e == gate.experts[s, 0]], []
            for s, j in zip(*np.nonzero(gate.experts == e)):
                number = {"position": -s, "random": numbers[s, e], "probability": p[s, e]}[rule]
                class_ = firsts if k == 2 and j == 0 else [t for t in range(24) if e in gate.experts[t] and not (k == 2 and t in firsts)]
                before = len(firsts) if k == 2 and j == 1 else 0
                better = sum(number < {"position": -t, "random": numbers[t, e], "probability": p[t, e]}[rule] for t in class_)
                assert gate.kept[s, j] == (before + better < capacity), (case, s, e)
                if gate.kept[s, j]:
                    seen.append((gate.places[s, j], j if k == 2 else 0, s))
            assert [x[1:] for x in sorted(seen)] == sorted(x[1:] for x in seen), (case, e)
        weights, kept = gate.weights.numpy(), gate.kept
        if k > 1:
            assert np.allclose(weights.sum(1), kept.any(1)) and (weights[kept.sum(1) == 1].max(1, initial=1) == 1).all()
        else:
            assert (weights[:, 0] == np.where(kept[:, 0], p.max(1), 0)).all()


def check_mixture():
    """Experts that are all alike, none crowded: with two choices the dense layer, with one the dense layer times the gate's probability."""
    for k in (1, 2):
        c = model(plain.LLAMA, {"top_k": k})
        values = plain.initial(c, 5, parameters)
        p = {n: torch.tensor(v).to(torch.float64) for n, v in values.items()}
        p.update({"layers.00.experts.%02d.%s.weight" % (e, part): p["layers.00.experts.00.%s.weight" % part]
                  for e in range(4) for part in ("gate", "up", "down")})
        n = torch.tensor(plain.normal(6, "x", 30 * 32).reshape(30, 32))
        logits = n @ p["layers.00.gate.weight"].T
        dense = plain.feed_forward(c, p, n, "layers.00.experts.00")
        got = mixture(c, p, "layers.00.", n, Gate(logits, k, 30 * k, "position"))
        want = dense if k == 2 else dense * logits.softmax(-1).max(1, keepdim=True).values
        assert float((got - want).abs().max()) < 1e-14 < float(want.abs().max())
    # Beside the experts: added, or mixed by shares that are those of a softmax of two.
    for beside in ({"shared": 2}, {"residual": True}):
        c = model(plain.LLAMA, beside)
        p = {n: torch.tensor(v).to(torch.float64) for n, v in plain.initial(c, 7, parameters).items()}
        gate = Gate(n @ p["layers.01.gate.weight"].T, 2, 12, "position")
        experts, got = mixture(model(plain.LLAMA, {}), p, "layers.01.", n, gate), mixture(c, p, "layers.01.", n, gate)
        if "shared" in beside:
            assert p["layers.01.shared.up.weight"].shape == (64, 32)
            want = experts + plain.feed_forward(c, p, n, "layers.01.shared")
        else:
            assert p["layers.01.residual.up.weight"].shape == (80, 32)
            mix = p["layers.01.mix.weight"]
            share = torch.sigmoid(n @ (mix[0] - mix[1]))[:, None]
            want = share * experts + (1 - share) * plain.feed_forward(c, p, n, "layers.01.residual")
        assert float((got - want).abs().max()) < 1e-14 < float((want - experts).abs().max()), beside
    assert direction(np.array([5, 3, 4, 4])).tolist() == [-1, 1, 0, 0] and direction(np.array([1, 1, 0])).tolist() == [-1, -1, 1]
    deep = MODELS["deepseek"][0]
    assert [experts_of(deep, i) for i in range(3)] == [0, 8, 8]
    assert [experts_of(MODELS["random"][0], i) for i in range(2)] == [2, 4]
    assert [experts_of(MODELS["top1"][0], i) for i in range(3)] == [0, 4, 0]


if __name__ == "__main__":
    plain.settle()
    if sys.argv[1:] == ["--check"]:
        check_values()
        check_places()
        check_mixture()
        print("as the reference says")
    else:
        where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
        for name, (config, seed) in MODELS.items():
            make(where, name, config, seed)
