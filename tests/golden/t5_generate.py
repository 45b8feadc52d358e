#!/usr/bin/env python3
"""Makes t5-generate.json of tests/generate/pairs_test.cpp: what transformers writes with a T5 of our initial values, greedily and by beam search.

    python3 tests/golden/t5_generate.py [OUTPUT_FOLDER]

All weights are initial values times FACTOR. Many tokens end a text, so that texts end at many places.
"""
import json
import os
import sys

import torch
from transformers import GenerationConfig

from pytorch_golden import initial, settle
from t5_golden import model_of, theirs

SEED, FACTOR, TOKENS = 21, 2.0, 14
MODEL = {"layers": 4, "encoder_layers": 2, "decoder_layers": 2, "hidden": 32, "heads": 4, "kv_heads": 4, "head_size": 12, "ffn": 64, "vocabulary": 257, "context": 64,
         "norm": "rms", "norm_epsilon": 1e-6, "rotary_base": 10000.0, "biases": False, "positions": "relative", "relative_buckets": 8, "relative_distance": 12,
         "query_scale": 1.0, "document_mask": False, "fan_in": True, "decoder_start": 0, "activation": "geglu_tanh", "tied": False}
ENDS = list(range(2, 257, 12))
SEARCHES = [(1, 1.0), (2, 1.0), (4, 0.0), (4, 1.0), (5, 2.0), (3, -0.5)]


def run():
    model = model_of(MODEL, torch.float32).eval()
    there = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in initial(MODEL, SEED).items():
            there[theirs(MODEL, name)].copy_(torch.tensor(value) * FACTOR)
    cases = []
    for case in range(10):
        source = [(11 * case * case + 37 * i + 5 * i * i) % 255 + 1 for i in range(3 + 2 * case)] + [256]
        for beams, penalty in SEARCHES:
            config = GenerationConfig(num_beams=beams, length_penalty=penalty, max_new_tokens=TOKENS, do_sample=False, early_stopping=False, eos_token_id=ENDS, pad_token_id=0,
                                      decoder_start_token_id=0, return_dict_in_generate=True, output_scores=True)
            out = model.generate(torch.tensor([source]), generation_config=config)
            tokens = out.sequences[0].tolist()[1:]
            ends = [i for i, token in enumerate(tokens) if token in ENDS]
            cases.append({"source": source, "beams": beams, "length_penalty": penalty, "tokens": tokens[: ends[0]] if ends else tokens, "ended": bool(ends),
                          "score": float(out.sequences_scores[0]) if beams > 1 else None})
    return cases


if __name__ == "__main__":
    settle()
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(where, "t5-generate.json"), "w") as out:
        head = {"made_by": "tests/golden/t5_generate.py", "seed": SEED, "factor": FACTOR, "tokens": TOKENS, "ends": ENDS}
        out.write(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(case) for case in run()) + "]}\n")
