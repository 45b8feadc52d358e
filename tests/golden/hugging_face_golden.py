#!/usr/bin/env python3
"""Makes tests/golden/hugging_face: tiny models of transformers, saved by it, with their logits and greedy continuations.

    python3 tests/golden/hugging_face_golden.py [OUTPUT_FOLDER [NAME...]]
    python3 tests/golden/hugging_face_golden.py --check MODEL EXPECTED.json TOLERANCE

Each folder has config.json and its tensors in safetensors, as save_pretrained wrote them, and expected.json: a prompt, the logits behind each
of its tokens, and, but of models that see both ways or have an encoder, the tokens that follow when the likeliest is always taken; the likeliest leads the next by a margin, so that rounding decides nothing.
--check loads a model with AutoModelForCausalLM or AutoModelForMaskedLM, strictly (no tensor missing, unknown or of another shape), and compares it with such a file:
what convert-checkpoint exports is judged by it.
"""
import copy
import json
import os
import shutil
import sys

import torch
import transformers
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, BertConfig, BertForMaskedLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Olmo2Config, Olmo2ForCausalLM, OlmoeConfig, OlmoeForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, RobertaConfig,
                          RobertaForMaskedLM, MT5Config, MT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration)

VOCABULARY = 41
PROMPT = [7, 3, 38, 0, 21, 21, 40]
NEW_TOKENS = 12
SOURCE = [5, 12, 40, 8, 8, 33, 2, 19, 27]  # of models with an encoder, whose decoder then reads 0 and PROMPT


def logits_of(model, tokens):
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            return model(input_ids=torch.tensor([SOURCE]), decoder_input_ids=torch.tensor([[0] + tokens])).logits[0].to(torch.float32)
        return model(torch.tensor([tokens])).logits[0].to(torch.float32)


def greedy(model, prompt, count):
    tokens, least = list(prompt), 1e9
    for _ in range(count):
        top = logits_of(model, tokens)[-1].topk(2)
        least = min(least, float(top.values[0] - top.values[1]))
        tokens.append(int(top.indices[0]))
    return tokens[len(prompt):], least


def gpt2(seed, **other):
    torch.manual_seed(seed)
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=12, n_head=3, vocab_size=VOCABULARY, n_positions=20, resid_pdrop=0.0, embd_pdrop=0.0,
                                      attn_pdrop=0.0, initializer_range=0.3, bos_token_id=0, eos_token_id=0, **other))


def llama(seed, **other):
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=4, intermediate_size=20, vocab_size=VOCABULARY,
                                        max_position_embeddings=20, initializer_range=0.3, bos_token_id=0, eos_token_id=0, pad_token_id=None, **other))


def bert(seed, **other):
    torch.manual_seed(seed)
    return BertForMaskedLM(BertConfig(num_hidden_layers=2, hidden_size=12, num_attention_heads=3, intermediate_size=20, vocab_size=VOCABULARY,
                                      max_position_embeddings=20, initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **other))


# Families since Llama share most names of their configuration.
def decoder(config, model, seed, **other):
    torch.manual_seed(seed)
    shape = dict(num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=20, vocab_size=VOCABULARY,
                 max_position_embeddings=20, initializer_range=0.3, bos_token_id=0, eos_token_id=0, pad_token_id=None)
    return model(config(**{**shape, **other}))


def roberta(seed, **other):
    torch.manual_seed(seed)
    return RobertaForMaskedLM(RobertaConfig(num_hidden_layers=2, hidden_size=12, num_attention_heads=3, intermediate_size=20, vocab_size=VOCABULARY, type_vocab_size=1,
                                            max_position_embeddings=22, initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **other))


def t5(seed, config=T5Config, model=T5ForConditionalGeneration, untied=False, **other):
    torch.manual_seed(seed)
    shape = dict(d_model=16, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=3, num_heads=4, vocab_size=VOCABULARY, relative_attention_num_buckets=8,
                 relative_attention_max_distance=7, dropout_rate=0.0, n_positions=64, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1)
    made = model(config(**{**shape, **other}))
    if untied:  # transformers ties new models always, and unties those whose files have a table of the head
        made.lm_head.weight = torch.nn.Parameter(torch.randn_like(made.lm_head.weight) * 0.3)
    return made


def neox(seed, **other):
    torch.manual_seed(seed)
    return GPTNeoXForCausalLM(GPTNeoXConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=24, vocab_size=VOCABULARY,
                                            max_position_embeddings=20, initializer_range=0.3, bos_token_id=0, eos_token_id=0, **other))


# Original lengths below the prompt's, so that scaled angles show.
LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 24, "beta_fast": 4.0, "beta_slow": 1.0}
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0}


def sees_both_ways(model):
    return isinstance(model, (BertForMaskedLM, RobertaForMaskedLM))


# Biases and norms are drawn, too: where all are 0 or 1 nothing shows that they came to their places.
def stir(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.2)
            elif p.dim() == 3:  # experts' weights, which some families begin with other spreads
                p.normal_(0, 0.3)
    return model.eval()


only = []


def make(folder, name, build, dtype=torch.float32, shard=None):
    if only and name not in only:
        return
    place = os.path.join(folder, name)
    shutil.rmtree(place, ignore_errors=True)
    for seed in range(1, 100):
        model = stir(build(seed)).to(dtype)
        exact = model if dtype == torch.float32 else type(model)(model.config).to(torch.float32).eval()
        if exact is not model and model.config.is_encoder_decoder:
            exact = copy.deepcopy(model).to(torch.float32)  # a new one would be tied
        elif exact is not model:
            exact.load_state_dict({k: v.to(torch.float32) for k, v in model.state_dict().items()})
        if sees_both_ways(model) or model.config.is_encoder_decoder:
            following, margin = None, 0.0
            break
        following, margin = greedy(exact, PROMPT, NEW_TOKENS)
        if margin > 0.02 and len(set(following)) > 3:
            break
    if model.config.is_encoder_decoder and model.lm_head.weight is not model.shared.weight:
        model.config.tie_word_embeddings = False  # as published files have it; version 5 would write true
    model.save_pretrained(place, **({"max_shard_size": shard} if shard else {}))
    for extra in os.listdir(place):
        if extra == "generation_config.json":
            os.remove(os.path.join(place, extra))
    logits = [[float("%.7g" % x) for x in row] for row in logits_of(exact, PROMPT).tolist()]
    with open(os.path.join(place, "expected.json"), "w") as out:
        json.dump({"made_by": "tests/golden/hugging_face_golden.py, transformers " + transformers.__version__, "seed": seed, "prompt": PROMPT,
                   "logits": logits, **({"source": SOURCE} if model.config.is_encoder_decoder else {}), **({} if following is None else {"greedy": following})}, out)
        out.write("\n")
    print(name, "seed", seed, "margin %.3f" % margin, following, sum(os.path.getsize(os.path.join(place, f)) for f in os.listdir(place)), "bytes",
          sorted(os.listdir(place)))


def loaded(path):
    kind = json.load(open(os.path.join(path, "config.json")))["model_type"]
    auto = {"bert": AutoModelForMaskedLM, "roberta": AutoModelForMaskedLM, "t5": AutoModelForSeq2SeqLM, "mt5": AutoModelForSeq2SeqLM}.get(kind, AutoModelForCausalLM)
    model, report = auto.from_pretrained(path, output_loading_info=True, dtype=torch.float32)
    wrong = {k: v for k, v in report.items() if v}
    if wrong:
        sys.exit("%s does not load strictly: %s" % (path, wrong))
    return model.eval()


# The model of `path` has the weights of the model of `origin`, rounded to bf16 by torch.
def check_rounded(path, origin):
    ours, theirs = loaded(path).state_dict(), loaded(origin).state_dict()
    different = [name for name in theirs if not torch.equal(ours[name], theirs[name].to(torch.bfloat16).float())]
    if different or ours.keys() != theirs.keys():
        sys.exit("%s: tensors that are not rounded as by torch: %s" % (path, different or ours.keys() ^ theirs.keys()))
    print("%s: %d tensors are those of torch" % (path, len(theirs)))


def check(path, expected, tolerance):
    model = loaded(path)
    want = json.load(open(expected))
    found = logits_of(model, want["prompt"])
    difference = float((found - torch.tensor(want["logits"])).abs().max())
    if difference > float(tolerance):
        sys.exit("%s: logits differ by %g, more than %s" % (path, difference, tolerance))
    if "greedy" in want and float(tolerance) < 1e-3 and greedy(model, want["prompt"], len(want["greedy"]))[0] != want["greedy"]:
        sys.exit("%s: another continuation" % path)
    print("%s: loads strictly, logits differ by at most %.3g" % (path, difference))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if len(sys.argv) > 1 and sys.argv[1] == "--check":
        check(*sys.argv[2:])
    elif len(sys.argv) > 1 and sys.argv[1] == "--check-rounded":
        check_rounded(*sys.argv[2:])
    else:
        only = sys.argv[2:]
        where = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "hugging_face")
        make(where, "gpt2", gpt2)
        make(where, "gpt2-untied", lambda s: gpt2(s, tie_word_embeddings=False, n_inner=20, layer_norm_epsilon=1e-4), dtype=torch.float16)
        make(where, "llama-2", lambda s: llama(s, rms_norm_eps=1e-5), shard="10KB")
        make(where, "llama-3", lambda s: llama(s, num_key_value_heads=2, rope_theta=500000.0, rms_norm_eps=1e-5), dtype=torch.bfloat16)
        make(where, "llama-3-tied", lambda s: llama(s, num_key_value_heads=1, rope_theta=500000.0, tie_word_embeddings=True, attention_bias=True, mlp_bias=True))
        make(where, "bert", bert)
        make(where, "llama-3.1", lambda s: decoder(LlamaConfig, LlamaForCausalLM, s, head_dim=8, rope_parameters=dict(LLAMA3)))
        make(where, "llama-linear", lambda s: decoder(LlamaConfig, LlamaForCausalLM, s, attention_bias=True, rope_parameters=dict(LINEAR)))
        make(where, "mistral", lambda s: decoder(MistralConfig, MistralForCausalLM, s, head_dim=6, sliding_window=4))
        make(where, "mixtral", lambda s: decoder(MixtralConfig, MixtralForCausalLM, s, num_local_experts=4, num_experts_per_tok=2))
        make(where, "qwen2", lambda s: decoder(Qwen2Config, Qwen2ForCausalLM, s, num_hidden_layers=3, use_sliding_window=True, sliding_window=3, max_window_layers=1))
        make(where, "qwen2-yarn", lambda s: decoder(Qwen2Config, Qwen2ForCausalLM, s, hidden_size=64, tie_word_embeddings=True, rope_parameters=dict(YARN)), shard="30KB")
        make(where, "qwen3", lambda s: decoder(Qwen3Config, Qwen3ForCausalLM, s, head_dim=6, tie_word_embeddings=True))
        make(where, "qwen3-moe", lambda s: decoder(Qwen3MoeConfig, Qwen3MoeForCausalLM, s, head_dim=6, num_hidden_layers=3, num_experts=4, num_experts_per_tok=2,
                                                   moe_intermediate_size=12, mlp_only_layers=[0], norm_topk_prob=True))
        make(where, "olmo2", lambda s: decoder(Olmo2Config, Olmo2ForCausalLM, s))
        make(where, "olmoe", lambda s: decoder(OlmoeConfig, OlmoeForCausalLM, s, num_experts=4, num_experts_per_tok=2))
        make(where, "phi3", lambda s: decoder(Phi3Config, Phi3ForCausalLM, s, sliding_window=4, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}))
        make(where, "gpt-neox", neox)
        make(where, "gpt-neox-sequential", lambda s: neox(s, use_parallel_residual=False, hidden_act="relu"))
        make(where, "gemma2", lambda s: decoder(Gemma2Config, Gemma2ForCausalLM, s, head_dim=6, num_hidden_layers=3, sliding_window=4, query_pre_attn_scalar=9, attn_logit_softcapping=2.0, final_logit_softcapping=3.0))
        make(where, "gemma3", lambda s: decoder(Gemma3TextConfig, Gemma3ForCausalLM, s, head_dim=6, num_hidden_layers=4, sliding_window=4, query_pre_attn_scalar=6,
                                                layer_types=["sliding_attention", "full_attention"] * 2,
                                                rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0},
                                                                 "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}))
        make(where, "roberta", roberta)
        make(where, "t5", t5, shard="10KB")
        make(where, "t5-v1.1", lambda s: t5(s, untied=True, feed_forward_proj="gated-gelu", tie_word_embeddings=False), dtype=torch.bfloat16)
        make(where, "mt5", lambda s: t5(s, MT5Config, MT5ForConditionalGeneration, untied=True, num_decoder_layers=1, feed_forward_proj="gated-gelu"))
        make(where, "bert-new-gelu", lambda s: bert(s, hidden_act="gelu_new", type_vocab_size=3, layer_norm_eps=1e-5), dtype=torch.bfloat16, shard="6KB")
