#!/usr/bin/env python3
"""Makes t5 and t5-v1.1 of tests/model/pytorch_golden_test.cpp: NAME.json and NAME.f32 as pytorch_golden.py does, but losses and gradients are of T5ForConditionalGeneration.

    python3 tests/golden/t5_golden.py [OUTPUT_FOLDER]

transformers computes everything: norms, buckets of distances, the scaled head, the token that begins the decoder's inputs. Only initial values and the optimizer are those of the
other golden files. Initial values have the standard deviations that transformers gives its own, which is checked here; that of the untied head is ours.
"""
import math
import os
import sys

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration

from pytorch_golden import SETTING, adamw, clip, gradients, initial, inventory, settle, window, write

COMMON = {"layers": 4, "encoder_layers": 2, "decoder_layers": 2, "hidden": 32, "heads": 4, "kv_heads": 4, "head_size": 12, "ffn": 80, "vocabulary": 131, "context": 48,
          "norm": "rms", "norm_epsilon": 1e-6, "rotary_base": 10000.0, "biases": False, "positions": "relative", "relative_buckets": 16, "relative_distance": 30,
          "query_scale": 1.0, "document_mask": False, "fan_in": True, "decoder_start": 0}
CONFIGS = {"t5": dict(COMMON, activation="relu", tied=True, head_scale=32**-0.5), "t5-v1.1": dict(COMMON, activation="geglu_tanh", tied=False)}
RUN = dict(SETTING, sequence=30, source=44)


def theirs(c, name):
    """The name of a parameter in transformers."""
    fixed = {"embedding.tokens.weight": "shared.weight", "head.weight": "lm_head.weight", "encoder.norm.weight": "encoder.final_layer_norm.weight",
             "head.norm.weight": "decoder.final_layer_norm.weight"}
    if name in fixed:
        return fixed[name]
    tower, *rest = name.split(".")
    if rest[0] == "relative_positions":
        return tower + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    part = {"attention": "SelfAttention", "cross_attention": "EncDecAttention", "ffn": "DenseReluDense"}
    index = {"attention": 0, "cross_attention": 1, "ffn": 1 if tower == "encoder" else 2}
    block, what = f"{tower}.block.{int(rest[1])}.layer.", rest[2]
    if what.endswith("_norm"):
        return f"{block}{index[what[:-5]]}.layer_norm.weight"
    inner = {"output": "o", "down": "wo", "up": "wi" if c["tied"] else "wi_1", "gate": "wi_0"}.get(rest[3], rest[3])
    return f"{block}{index[what]}.{part[what]}.{inner}.weight"


def model_of(c, dtype):
    torch.manual_seed(1)
    config = T5Config(vocab_size=c["vocabulary"], d_model=c["hidden"], d_kv=c["head_size"], d_ff=c["ffn"], num_layers=c["encoder_layers"], num_decoder_layers=c["decoder_layers"],
                      num_heads=c["heads"], relative_attention_num_buckets=c["relative_buckets"], relative_attention_max_distance=c["relative_distance"], dropout_rate=0.0,
                      layer_norm_epsilon=c["norm_epsilon"], feed_forward_proj="relu" if c["tied"] else "gated-gelu", tie_word_embeddings=c["tied"], decoder_start_token_id=0, pad_token_id=0)
    model = T5ForConditionalGeneration(config)
    if not c["tied"]:  # transformers ties new models always, and unties those whose files have a table of the head
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    ours = inventory(c)
    there = dict(model.named_parameters())
    assert sorted(there) == sorted(theirs(c, name) for name in ours), sorted(set(there) ^ {theirs(c, n) for n in ours})
    for name, (shape, deviation) in ours.items():
        values = there[theirs(c, name)]
        assert tuple(values.shape) == tuple(shape), name
        if name != "head.weight" and not isinstance(deviation, str):
            found = float(values.detach().std())
            assert abs(found / deviation - 1) < 6 / math.sqrt(2 * values.numel()), (name, found, deviation)
    return model.to(dtype)


def run(c, dtype):
    model = model_of(c, dtype)
    there = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in initial(c, RUN["seed"]).items():
            there[theirs(c, name)].copy_(torch.tensor(value))
    p = {name: there[theirs(c, name)] for name in inventory(c)}
    o = adamw(p, RUN)
    losses, norms, first = [], [], None
    for step in range(RUN["steps"]):
        sequences = [window(c, step, s, RUN["sequence"]) for s in range(RUN["batch"])]
        sources = [window(c, step + 50, s, RUN["source"])[:-1] for s in range(RUN["batch"])]
        labels = torch.tensor(np.array([w[1:] for w in sequences]))
        out = model(input_ids=torch.tensor(np.array(sources)), labels=labels)  # its inputs are the labels, shifted, behind token 0
        o.zero_grad()
        out.loss.backward()
        losses.append(float(out.loss.detach()))
        first = gradients(p) if first is None else first
        norms.append(clip(p, RUN))
        o.step()
    return losses, norms, first


if __name__ == "__main__":
    settle()
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, config in CONFIGS.items():
        losses, norms, first = run(config, torch.float32)
        losses64, _, first64 = run(config, torch.float64)
        write(where, name, {"made_by": "tests/golden/t5_golden.py", "model": config, "run": RUN, "losses": losses, "losses_float64": losses64, "gradient_norms": norms},
              initial(config, RUN["seed"]), first, first64)
