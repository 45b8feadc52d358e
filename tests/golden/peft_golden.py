# Adapters made by the Python package peft beside the golden models of tests/golden/hugging_face, with random values in
# both matrices: their files, the logits, and the gradients of the sum of losses. Checked by tests/convert/peft_test.cpp.
# python3 tests/golden/peft_golden.py (torch, transformers, peft)
import json
import os
import shutil

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

here = os.path.dirname(os.path.abspath(__file__))
cases = [
    ("llama-2", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], dict(r=8, lora_alpha=12)),
    ("qwen2", ["q_proj", "v_proj"], dict(r=4, lora_alpha=8, use_rslora=True)),
    ("gemma2", ["o_proj", "down_proj", "gate_proj"], dict(r=8, lora_alpha=32)),
    ("gpt2", ["attn.c_proj", "mlp.c_fc", "mlp.c_proj"], dict(r=8, lora_alpha=8, fan_in_fan_out=True)),
    ("qwen3-moe", ["q_proj", "k_proj", "v_proj", "o_proj"], dict(r=8, lora_alpha=16)),
    ("bert", ["query", "key", "value", "attention.output.dense", "intermediate.dense"], dict(r=8, lora_alpha=16)),
]

for name, targets, settings in cases:
    torch.manual_seed(7)
    masked = name == "bert"
    base = (AutoModelForMaskedLM if masked else AutoModelForCausalLM).from_pretrained(
        os.path.join(here, "hugging_face", name), dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(base, LoraConfig(target_modules=targets, lora_dropout=0.0, **settings)).eval()
    for key, parameter in model.named_parameters():
        if "lora_" in key:
            with torch.no_grad():
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    vocabulary = base.config.vocab_size
    prompt = [(11 * i * i + 5 * i + 3) % vocabulary for i in range(12)]
    targets_of = prompt[1:] + [3]
    logits = model(torch.tensor([prompt])).logits[0]
    torch.nn.functional.cross_entropy(logits, torch.tensor(targets_of), reduction="sum").backward()
    out = os.path.join(here, "peft", name)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    for extra in ("README.md",):
        if os.path.exists(os.path.join(out, extra)):
            os.remove(os.path.join(out, extra))
    path = os.path.join(out, "adapter_config.json")
    config = json.load(open(path))
    config["base_model_name_or_path"] = None
    json.dump(config, open(path, "w"), indent=2)
    gradients = {}
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            gradients[key.replace(".default", "")] = [parameter.grad.norm().item()] + parameter.grad.flatten()[:4].tolist()
    json.dump({"prompt": prompt, "last_target": 3, "logits": [[round(x, 7) for x in row] for row in logits.tolist()],
               "gradients": gradients}, open(os.path.join(out, "expected.json"), "w"))
    print(name, len(gradients), "tensors")
