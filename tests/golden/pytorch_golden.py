#!/usr/bin/env python3
"""Makes the golden files of tests/model/pytorch_golden_test.cpp with PyTorch: NAME.json and NAME.f32 of gpt2, llama, post and bert; of masked and masked-documents, BERTs that
learn hidden tokens; of sparse-bert, sparse-gpt2 and sparse-llama, whose attention has blocks; of head-norm and width-norm, whose heads have norms, other sizes and scaled angles; of windowed-llama, whose layers see a few tokens or all, with a cap of scores; of sandwich, like Gemma 2, inside-post, like OLMo 2, parallel, like GPT-NeoX, and relu, like OPT; and of encoder-gpt2, encoder-llama, encoder-post and encoder-sandwich, the same with an encoder, and encoder-relative and encoder-relative-gated, like T5.

    python3 tests/golden/pytorch_golden.py [OUTPUT_FOLDER]

GPT-2, Llama, one with norms behind branches and exact GELU, and BERT written plainly (dense attention, no fused call; what is not computed of blocks is -inf before the softmax), so
that nothing is shared with the C++ code: initial values come from Philox 4x32-10 and Box-Muller in numpy, what is hidden and which blocks there are from rules.py, tokens from a
formula, ten AdamW steps are torch.optim.AdamW with the norm clipped by the rule of the project. Each .json holds the configuration, ten losses (float32 and float64 runs), the
gradient norm of each step, and for each parameter the place of its first gradient (of the mean loss) in the .f32 file, its first initial values, and its initial sum.
"""
import json
import math
import os
import sys

import numpy as np
import torch

from golden_models import (BERT, BOTH_WAYS, COMMON, DECODER, DRAWN, ENCODER, GPT, HEAD_NORM, INSIDE_POST, LLAMA, LONG, LONG_LLAMA, LONG_SOURCE, PARALLEL, POST, RELATIVE,
                           RELATIVE_GATED, RELU, SANDWICH, SETTING, SHORT_SOURCE, SLIDING, SMOOTH, SPAN, VARIABLE, WIDTH_NORM, frequencies)
from rules import blocks, hide, philox, site_hash, uniform


def normal(seed, name, count):
    w = philox(seed, np.arange((count + 1) // 2, dtype=np.uint64), site_hash("init", name))
    u1, u2 = 1.0 - uniform(w[0], w[1]), uniform(w[2], w[3])
    radius, angle = np.sqrt(-2.0 * np.log(u1)), 2.0 * np.pi * u2
    out = np.empty((len(u1), 2))
    out[:, 0], out[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    return out.reshape(-1)[:count]


def is_post(c):
    """Do norms stand behind branches and their sums?"""
    return c.get("norm_position") == "post"


def positions_of(c):
    return c.get("positions", "learned" if c["norm"] == "layer" else "rotary")


def is_rotary(c):
    return positions_of(c) == "rotary"


def relative_bucket(c, distance, bidirectional):
    """The row of the table for a key that is so many places behind a query (Raffel et al. 2020)."""
    side = c["relative_buckets"] // (2 if bidirectional else 1)
    first = side if bidirectional and distance > 0 else 0
    n, exact = abs(distance) if bidirectional else max(0, -distance), side // 2
    if n < exact:
        return first + n
    return first + min(side - 1, exact + int(math.log(n / exact) / math.log(c["relative_distance"] / exact) * (side - exact)))


def activation_of(c):
    return c.get("activation", "gelu_tanh" if c["norm"] == "layer" else "swiglu")


def is_gated(c):
    return activation_of(c) in ("swiglu", "geglu_tanh", "geglu_erf")


def is_masked(c):
    """Is it the head of a masked language model?"""
    return c.get("head") == "masked"


def is_causal(c):
    """Does no query see a later key, and is the next token learned? Else hidden ones are, in whose places the last id stands."""
    return c.get("causal", True)


def encoder_layers(c):
    """The first layers, if they are an encoder."""
    return c.get("encoder_layers", 0)


def layer_name(c, layer):
    if not encoder_layers(c):
        return "layers.%02d." % layer
    first = 0 if layer < encoder_layers(c) else encoder_layers(c)
    return "%s.layers.%02d." % ("decoder" if first else "encoder", layer - first)


def gelu_erf(x):
    return 0.5 * x * torch.erfc(-x / math.sqrt(2))


def has_bias(c, name):
    return name.endswith((".q", ".k", ".v")) if c["biases"] == "qkv" else c["biases"]


def head_size(c):
    return c.get("head_size") or c["hidden"] // c["heads"]


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def relu(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


FUNCTIONS = {"gelu_tanh": gelu_tanh, "gelu_erf": gelu_erf, "relu": relu, "relu_squared": lambda x: relu(x) ** 2,
             "swiglu": lambda x: x * torch.sigmoid(x), "geglu_tanh": gelu_tanh, "geglu_erf": gelu_erf}


def linear_parameters(c, p, name, out, inner, std=0.02):
    p[name + ".weight"] = ((out, inner), std)
    if has_bias(c, name):
        p[name + ".bias"] = ((out,), "zeros")


def feed_forward_parameters(c, p, name, width):
    if is_gated(c):
        linear_parameters(c, p, name + ".gate", width, c["hidden"])
    linear_parameters(c, p, name + ".up", width, c["hidden"])
    linear_parameters(c, p, name + ".down", c["hidden"], width, 0.02 / math.sqrt(2 * c["layers"]))


def dense_parameters(c, p, layer):
    feed_forward_parameters(c, p, layer_name(c, layer) + "ffn", c["ffn"])


def inventory(c, behind_norm=dense_parameters):
    """name -> (shape, kind or standard deviation), in declaration order. Weights are [out, in]."""
    h, hd = c["hidden"], head_size(c)
    q, kv, residual = c["heads"] * hd, c["kv_heads"] * hd, 0.02 / math.sqrt(2 * c["layers"])
    gpt = c["norm"] == "layer"
    p = {"embedding.tokens.weight": ((c["vocabulary"], h), 0.02)}
    if positions_of(c) == "learned":
        for name in ("encoder", "decoder") if encoder_layers(c) else ("embedding",):
            p[name + ".positions.weight"] = ((c["context"] + c.get("position_offset", 0), h), 0.02)

    if positions_of(c) == "relative":
        for name in ("encoder", "decoder"):
            p[name + ".relative_positions.weight"] = ((c["relative_buckets"], c["heads"]), 0.02)
    if c.get("segments"):
        p["embedding.segments.weight"] = ((c["segments"], h), 0.02)

    def norm(name):
        p[name + ".weight"] = ((h,), "zeros" if c.get("norm_offset") else "ones")
        if gpt:
            p[name + ".bias"] = ((h,), "zeros")

    if c.get("embedding_norm"):
        norm("embedding.norm")
    if encoder_layers(c) and not is_post(c):
        norm("encoder.norm")
    for i in range(c["layers"]):
        l = layer_name(c, i)
        norm(l + "attention_norm")
        if c.get("norm_position") == "sandwich":
            norm(l + "attention_post_norm")
            norm(l + "ffn_post_norm")
        linear_parameters(c, p, l + "attention.q", q, h)
        linear_parameters(c, p, l + "attention.k", kv, h)
        linear_parameters(c, p, l + "attention.v", kv, h)
        if c.get("qk_norm"):
            p[l + "attention.q_norm.weight"] = ((hd if c["qk_norm"] == "head" else q,), "ones")
            p[l + "attention.k_norm.weight"] = ((hd if c["qk_norm"] == "head" else kv,), "ones")
        linear_parameters(c, p, l + "attention.output", h, q, residual)
        if l.startswith("decoder."):
            norm(l + "cross_attention_norm")
            if c.get("norm_position") == "sandwich":
                norm(l + "cross_attention_post_norm")
            linear_parameters(c, p, l + "cross_attention.q", q, h)
            linear_parameters(c, p, l + "cross_attention.k", kv, h)
            linear_parameters(c, p, l + "cross_attention.v", kv, h)
            linear_parameters(c, p, l + "cross_attention.output", h, q, residual)
        norm(l + "ffn_norm")
        behind_norm(c, p, i)
    if not is_post(c):
        norm("head.norm")
    if is_masked(c):
        linear_parameters(c, p, "head.transform", h, h)
        norm("head.transform_norm")
    if not c["tied"]:
        p["head.weight"] = ((c["vocabulary"], h), 0.02)
    if is_masked(c):
        p["head.bias"] = ((c["vocabulary"],), "zeros")
    return {name: (shape, fan_in(c, name, shape, kind)) for name, (shape, kind) in p.items()} if c.get("fan_in") else p


def fan_in(c, name, shape, kind):
    """Standard deviations of T5 (Raffel et al. 2020, and transformers)."""
    if isinstance(kind, str) or name.endswith(".positions.weight"):
        return kind
    if name.endswith("attention.q.weight"):
        return 1 / math.sqrt(shape[1] * head_size(c)) / (c.get("query_scale") or 1 / math.sqrt(head_size(c)))
    if name.endswith("relative_positions.weight"):
        return 1 / math.sqrt(c["hidden"])
    return 1.0 if name == "embedding.tokens.weight" else 1 / math.sqrt(shape[1])


def initial(c, seed, behind_norm=dense_parameters):
    out = {}
    for name, (shape, kind) in inventory(c, behind_norm).items():
        count = int(np.prod(shape))
        if kind == "ones":
            value = np.ones(count)
        elif kind == "zeros":
            value = np.zeros(count)
        else:
            value = kind * normal(seed, name, count)
        out[name] = value.astype(np.float32).reshape(shape)
    return out


def window(c, step, sequence_index, length):
    """length + 1 tokens of one sequence; token 0 ends a document when the mask is on."""
    i, vocabulary = np.arange(length + 1, dtype=np.int64), c["vocabulary"] - (0 if is_causal(c) else 1)
    t = (i * i * 7 + i * 3 + sequence_index * 17 + step * 29 + 5) % (vocabulary - 1) + 1
    if c["document_mask"]:
        t[4 + sequence_index] = 0
        t[11] = 0
    return t


def masked(tokens):
    """Document start of every position, restarted positions, and the weight of every target."""
    start, begin = [], 0
    for i, t in enumerate(tokens[:-1]):
        start.append(begin)
        if t == 0:
            begin = i + 1
    start = np.array(start)
    weights = np.array([0 if tokens[i] == 0 else 1 for i in range(len(tokens) - 1)])
    return start, np.arange(len(start)) - start, weights


def norm(c, p, x, name):
    gpt = c["norm"] == "layer"
    if gpt:
        x = x - x.mean(-1, keepdim=True)
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + c["norm_epsilon"]) * (p[name + ".weight"] + c.get("norm_offset", 0))
    return x + p[name + ".bias"] if gpt else x


def linear(c, p, x, name):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if has_bias(c, name) else y


def embed(c, p, tokens, positions, tower="embedding"):
    x = p["embedding.tokens.weight"][torch.tensor(tokens)]
    x = x * torch.tensor(c.get("embedding_scale", 1.0), dtype=x.dtype)
    if positions_of(c) == "learned":
        x = x + p[tower + ".positions.weight"][torch.tensor(positions + c.get("position_offset", 0))]
    if c.get("segments"):
        x = x + p["embedding.segments.weight"][0]
    return norm(c, p, x, "embedding.norm") if c.get("embedding_norm") else x


def before(c, p, x, branch):
    """The input of a branch: a norm of the hidden states, or these."""
    return norm(c, p, x, branch + "_norm") if c.get("norm_position", "pre") in ("pre", "sandwich") else x


def behind(c, p, y, branch):
    """What is added of a branch's output."""
    name = {"inside_post": "_norm", "sandwich": "_post_norm"}.get(c.get("norm_position"))
    return norm(c, p, y, branch + name) if name else y


def visible(c, layer, start):
    """[heads or 1, T, T]: which keys a query sees."""
    start = torch.tensor(start)
    there = start[:, None] == start[None, :]
    if is_causal(c) and layer >= encoder_layers(c):
        there = there & torch.ones_like(there).tril()
    windows = c.get("window_tokens", [0])
    if windows[layer % len(windows)] > 0:
        place = torch.arange(len(start))
        there = there & ((place[:, None] - place[None, :]).abs() < windows[layer % len(windows)])
    if "attention" not in c:
        return there[None]
    return there[None] & torch.tensor(blocks(c["attention"], is_causal(c), layer, c["heads"], len(start)))


def attention(c, p, layer, x, start, positions):
    """What the attention of one layer makes of the hidden states x [T, h], one sequence."""
    T, h, heads, kvh = len(x), c["hidden"], c["heads"], c["kv_heads"]
    hd, l = head_size(c), layer_name(c, layer)

    def rotate(x):
        width = int(hd * c.get("rotary", {}).get("fraction", 1))
        half = width // 2
        frequency, factor = frequencies(c, width)
        angle = torch.tensor(positions, dtype=torch.float64)[:, None] * frequency[None, :]
        cos, sin = (factor * angle.cos()).to(x.dtype)[:, None, :], (factor * angle.sin()).to(x.dtype)[:, None, :]
        a, b = x[..., :half], x[..., half:width]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., width:]], -1)

    def normed(x, name):
        if not c.get("qk_norm"):
            return x
        y = x if c["qk_norm"] == "head" else x.reshape(T, -1)
        y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + c["norm_epsilon"]) * p[l + name + ".weight"]
        return y.view(x.shape)

    n = before(c, p, x, l + "attention")
    q = linear(c, p, n, l + "attention.q").view(T, heads, hd)
    k = linear(c, p, n, l + "attention.k").view(T, kvh, hd)
    v = linear(c, p, n, l + "attention.v").view(T, kvh, hd)
    q, k = normed(q, "attention.q_norm"), normed(k, "attention.k_norm")
    if is_rotary(c):
        q, k = rotate(q), rotate(k)
    k = k.repeat_interleave(heads // kvh, 1)
    v = v.repeat_interleave(heads // kvh, 1)
    scores = torch.einsum("ihd,jhd->hij", q, k) * (c.get("query_scale") or 1 / math.sqrt(hd))
    if c.get("softcap"):
        scores = c["softcap"] * torch.tanh(scores / c["softcap"])
    if positions_of(c) == "relative":
        both, places = layer < encoder_layers(c), range(T)
        rows = torch.tensor([[relative_bucket(c, j - i, both) for j in places] for i in places])
        scores = scores + p[("encoder" if both else "decoder") + ".relative_positions.weight"][rows].permute(2, 0, 1)
    scores = scores.masked_fill(~visible(c, layer, start), float("-inf")).softmax(-1)
    a = torch.einsum("hij,jhd->ihd", scores, v).reshape(T, heads * hd)
    return linear(c, p, a, l + "attention.output")


def cross_attention(c, p, layer, x, memory, seen):
    """The same of a decoder's layer, of x [T, h] to the encoder's output [S, h]. seen [T, S]: which places belong to a token."""
    heads, kvh, hd, l = c["heads"], c["kv_heads"], head_size(c), layer_name(c, layer) + "cross_attention"
    q = linear(c, p, before(c, p, x, l), l + ".q").view(len(x), heads, hd)
    k = linear(c, p, memory, l + ".k").view(len(memory), kvh, hd).repeat_interleave(heads // kvh, 1)
    v = linear(c, p, memory, l + ".v").view(len(memory), kvh, hd).repeat_interleave(heads // kvh, 1)
    scores = torch.einsum("ihd,jhd->hij", q, k) * (c.get("query_scale") or 1 / math.sqrt(hd))
    scores = scores.masked_fill(~torch.tensor(seen)[None], float("-inf")).softmax(-1)
    return linear(c, p, torch.einsum("hij,jhd->ihd", scores, v).reshape(len(x), heads * hd), l + ".output")


def feed_forward(c, p, n, name):
    up = linear(c, p, n, name + ".up")
    f = FUNCTIONS[activation_of(c)]
    act = f(linear(c, p, n, name + ".gate")) * up if is_gated(c) else f(up)
    return linear(c, p, act, name + ".down")


def head(c, p, x):
    if not is_post(c):
        x = norm(c, p, x, "head.norm")
    if is_masked(c):
        x = norm(c, p, gelu_erf(linear(c, p, x, "head.transform")), "head.transform_norm")
    x = x @ p["embedding.tokens.weight" if c["tied"] else "head.weight"].T
    x = x + p["head.bias"] if is_masked(c) else x
    return c["logit_softcap"] * torch.tanh(x / c["logit_softcap"]) if c.get("logit_softcap") else x


def forward(c, p, tokens, start, positions, source=None):
    """Logits [T, V] of one sequence. source: of a model with an encoder the source's tokens, starts and positions, and which of its places a token sees."""
    encoder, memory = encoder_layers(c), None
    if encoder:
        memory = layers(c, p, range(encoder), embed(c, p, source["tokens"], source["positions"], "encoder"), source["start"], source["positions"])
        memory = memory if is_post(c) else norm(c, p, memory, "encoder.norm")
    x = embed(c, p, tokens, positions, "decoder" if encoder else "embedding")
    return head(c, p, layers(c, p, range(encoder, c["layers"]), x, start, positions, memory, source and source["seen"]))


def layers(c, p, which, x, start, positions, memory=None, seen_source=None):
    for layer in which:
        l = layer_name(c, layer)
        if is_post(c):
            x = norm(c, p, x + attention(c, p, layer, x, start, positions), l + "attention_norm")
            if memory is not None:
                x = norm(c, p, x + cross_attention(c, p, layer, x, memory, seen_source), l + "cross_attention_norm")
            x = norm(c, p, x + feed_forward(c, p, x, l + "ffn"), l + "ffn_norm")
            continue
        y = x + behind(c, p, attention(c, p, layer, x, start, positions), l + "attention")
        if memory is not None:
            y = y + behind(c, p, cross_attention(c, p, layer, y, memory, seen_source), l + "cross_attention")
        seen = x if c.get("parallel_residual") else y
        x = y + behind(c, p, feed_forward(c, p, before(c, p, seen, l + "ffn"), l + "ffn"), l + "ffn")
    return x


def source_of(c, step, sequence_index, length, target_start):
    """The source of a sequence. Each document of the target, which begins at the numbers of target_start, sees the document of the same number in its source."""
    w = window(c, step + 50, sequence_index, length)
    start, positions = np.zeros(length, np.int64), np.arange(length)
    if c["document_mask"]:
        start, positions, _ = masked(w)
    number = lambda starts: np.searchsorted(np.unique(starts), starts)
    return {"tokens": w[:-1], "start": start, "positions": positions, "seen": number(target_start)[:, None] == number(start)[None, :]}


def adamw(p, run_):
    decays = lambda name, v: v.dim() == 2 and not name.startswith("embedding.") and not name.endswith("positions.weight")
    decay = [v for k, v in p.items() if decays(k, v)]
    keep = [v for k, v in p.items() if not decays(k, v)]
    return torch.optim.AdamW([{"params": decay, "weight_decay": run_["weight_decay"]}, {"params": keep, "weight_decay": 0.0}],
                             lr=run_["learning_rate"], betas=(run_["beta1"], run_["beta2"]), eps=run_["epsilon"])


def clip(p, run_):
    """The norm of all gradients, before they are clipped by it."""
    norm = math.sqrt(sum(float((v.grad.to(torch.float64) ** 2).sum()) for v in p.values()))
    scale = min(1.0, run_["clip"] / (norm + 1e-6))
    for v in p.values():
        v.grad.mul_(scale)
    return norm


def gradients(p):
    return {k: v.grad.detach().to(torch.float64).numpy().copy() for k, v in p.items()}


def run(c, run_, dtype):
    p = {k: torch.tensor(v).to(dtype).requires_grad_() for k, v in initial(c, run_["seed"]).items()}
    o = adamw(p, run_)
    losses, norms, first = [], [], None
    for step in range(run_["steps"]):
        total, count = 0.0, 0
        for s in range(run_["batch"]):
            w = window(c, step, s, run_["sequence"])
            start, positions, weights = np.zeros(len(w) - 1, np.int64), np.arange(len(w) - 1), np.ones(len(w) - 1)
            if c["document_mask"]:
                start, positions, weights = masked(w)
            tokens, targets = w[:-1], w[1:]
            if not is_causal(c):
                targets = w[:-1]
                tokens, weights = hide(targets, run_["seed"], step * run_["batch"] + s, c["vocabulary"] - 1)
            source = source_of(c, step, s, run_["source"], start) if encoder_layers(c) else None
            logits = forward(c, p, tokens, start, positions, source)
            nll = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), reduction="none", label_smoothing=run_.get("label_smoothing", 0.0))
            total = total + (nll * torch.tensor(weights).to(dtype)).sum()
            count += int(weights.sum())
        loss = total / count
        o.zero_grad()
        loss.backward()
        losses.append(float(loss.detach()))
        if first is None:
            first = gradients(p)
        norms.append(clip(p, run_))
        o.step()
    return losses, norms, first


def write(folder, name, page, values, first, first64):
    """page without its tensors: made_by is the path of a script."""
    tensors, offset = [], 0
    with open(os.path.join(folder, name + ".f32"), "wb") as out:
        for k, v in values.items():
            error = np.linalg.norm(first[k] - first64[k]) / max(np.linalg.norm(first64[k]), 1e-300)
            tensors.append({"name": k, "shape": list(v.shape), "offset": offset, "norm": float(np.linalg.norm(first64[k])),
                            "float32_error": float("%.2g" % error), "initial_sum": float(v.astype(np.float64).sum()),
                            "initial": [float(x) for x in v.reshape(-1)[:8]]})
            out.write(first64[k].astype("<f4").tobytes())
            offset += v.size
    page = dict(page, made_by=page["made_by"] + ", torch " + torch.__version__.split("+")[0], tensors=tensors)
    with open(os.path.join(folder, name + ".json"), "w") as out:
        json.dump(page, out, indent=1)
        out.write("\n")
    print(name, page["losses"], max(t["float32_error"] for t in tensors), offset * 4, "bytes")


def make(folder, name, config, setting=SETTING):
    losses, norms, first = run(config, setting, torch.float32)
    losses64, _, first64 = run(config, setting, torch.float64)
    write(folder, name, {"made_by": "tests/golden/pytorch_golden.py", "model": config, "run": setting, "losses": losses,
                         "losses_float64": losses64, "gradient_norms": norms}, initial(config, setting["seed"]), first, first64)


def settle():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


if __name__ == "__main__":
    settle()
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, config in {"gpt2": GPT, "llama": LLAMA, "head-norm": HEAD_NORM, "width-norm": WIDTH_NORM, "post": POST, "bert": BERT, "sandwich": SANDWICH, "inside-post": INSIDE_POST, "parallel": PARALLEL, "relu": RELU, "masked": BOTH_WAYS}.items():
        make(where, name, dict(COMMON, **config))
    make(where, "smooth-llama", dict(COMMON, **LLAMA, logit_softcap=0.5), SMOOTH)
    make(where, "smooth-masked", dict(COMMON, **BOTH_WAYS), SMOOTH)
    make(where, "masked-documents", dict(COMMON, **dict(BOTH_WAYS, document_mask=True)))
    make(where, "sparse-bert", dict(COMMON, **BOTH_WAYS, attention=DRAWN) | SPAN, LONG)
    make(where, "sparse-gpt2", dict(COMMON, **GPT, attention=SLIDING) | SPAN, LONG)
    make(where, "sparse-llama", dict(COMMON, **LLAMA, attention=VARIABLE) | SPAN, LONG_LLAMA)
    make(where, "windowed-llama", dict(COMMON, **LLAMA, window_tokens=[4, 0], softcap=0.004))
    for name, config, setting in (("gpt2", dict(GPT, document_mask=True) | ENCODER, LONG_SOURCE), ("llama", LLAMA | DECODER, SHORT_SOURCE), ("post", POST | DECODER, LONG_SOURCE), ("sandwich", SANDWICH | ENCODER, SHORT_SOURCE), ("relative", RELATIVE | DECODER, LONG_SOURCE), ("relative-gated", RELATIVE_GATED | ENCODER, SHORT_SOURCE)):
        make(where, "encoder-" + name, COMMON | config, setting)
