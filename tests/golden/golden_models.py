"""The models and settings of pytorch_golden.py, and the angles of rotary positions."""
import math

import torch

SETTING = {"seed": 1234, "batch": 3, "sequence": 20, "steps": 10, "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95,
           "epsilon": 1e-8, "weight_decay": 0.1, "clip": 1.0}
COMMON = {"layers": 2, "hidden": 32, "heads": 4, "vocabulary": 131, "context": 24, "norm_epsilon": 1e-5, "rotary_base": 10000.0}
GPT = {"norm": "layer", "kv_heads": 4, "ffn": 96, "biases": True, "tied": True, "document_mask": False}
POST = dict(GPT, norm_position="post", activation="gelu_erf")
BERT = dict(POST, embedding_norm=True, segments=2, head="masked")
LLAMA = {"norm": "rms", "kv_heads": 2, "ffn": 80, "biases": False, "tied": False, "document_mask": True}
HEAD_NORM = dict(LLAMA, head_size=16, qk_norm="head", biases="qkv",
                 rotary={"scaling": "llama3", "factor": 4.0, "low": 1.0, "high": 4.0, "original": 24})
WIDTH_NORM = dict(LLAMA, head_size=4, qk_norm="width", query_scale=0.4,
                  rotary={"scaling": "yarn", "factor": 4.0, "original": 64, "fraction": 0.5})
BOTH_WAYS = dict(BERT, causal=False)
SANDWICH = dict(LLAMA, norm_position="sandwich", norm_offset=1, embedding_scale=math.sqrt(32), logit_softcap=0.5, activation="geglu_tanh", tied=True)
INSIDE_POST = dict(LLAMA, norm_position="inside_post", activation="geglu_erf")
PARALLEL = dict(GPT, positions="rotary", parallel_residual=True, activation="relu_squared", tied=False)
# Like T5: scores that are not scaled, heads of another size, and a bias of scores by distance in place of positions.
RELATIVE = dict(LLAMA, kv_heads=4, positions="relative", relative_buckets=8, relative_distance=12, activation="relu", head_size=16, query_scale=1.0, tied=True)
RELATIVE_GATED = dict(RELATIVE, activation="geglu_tanh", tied=False, document_mask=False, head_size=4)
SMOOTH = dict(SETTING, label_smoothing=0.1)
# Encoders of two layers before decoders of one, and the other way round, with sources that are longer and shorter.
ENCODER, DECODER = {"layers": 3, "encoder_layers": 2, "decoder_layers": 1}, {"layers": 3, "encoder_layers": 1, "decoder_layers": 2}
LONG_SOURCE, SHORT_SOURCE = dict(SETTING, source=23), dict(SETTING, source=13)
RELU = dict(GPT, activation="relu", position_offset=2)
# Layers after one another have other blocks, heads others yet; the last block of a sequence is not a whole one.
LONG, LONG_LLAMA, SPAN = dict(SETTING, batch=2, sequence=88), dict(SETTING, batch=2, sequence=75), {"context": 88}
DRAWN = {"layout": ["bigbird", "longformer"], "block": 16, "window": 1, "random": 1, "global_blocks": "2, 4:5", "per_head": True, "seed": 3}
SLIDING = {"layout": ["sliding", "fixed"], "block": 16, "window": 2, "local": [2], "patterns": 2, "per_head": True}
VARIABLE = {"layout": ["dense", "variable"], "block": 16, "window": 3, "local": [1, 2], "global_blocks": "1", "random": 1, "seed": 9}


def frequencies(c, width):
    """Of the pairs of `width` rotated channels, and the factor of cosines and sines."""
    r = c.get("rotary", {})
    plain = c["rotary_base"] ** (-torch.arange(width // 2, dtype=torch.float64) * 2 / width)
    kind, factor = r.get("scaling", "none"), r.get("factor", 1)
    if kind == "none":
        return plain, 1.0
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "llama3":
        length = 2 * math.pi / plain
        smooth = (r["original"] / length - r["low"]) / (r["high"] - r["low"])
        between = (1 - smooth) * plain / factor + smooth * plain
        scaled = torch.where(length > r["original"] / r["low"], plain / factor, between)
        return torch.where(length < r["original"] / r["high"], plain, scaled), 1.0
    at = [width * math.log(r["original"] / (turns * 2 * math.pi)) / (2 * math.log(c["rotary_base"])) for turns in (32, 1)]
    low, high = max(math.floor(at[0]), 0), min(math.ceil(at[1]), width - 1)
    ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp), 0.1 * math.log(factor) + 1
