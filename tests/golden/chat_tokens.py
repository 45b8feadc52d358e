#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/chats.json: what the packages `tokenizers` and `sentencepiece` make of whole conversations.

    python3 tests/golden/chat_tokens.py

Needs the packages `tokenizers` (0.23.3), `protobuf` and `sentencepiece` (0.2.3 made the file that is here), and the tokenizers of
tokenizer_kinds.py. SentencePiece models are trained here, small ones, and are in the file in base64.

Each row has a tokenizer, a template, a conversation and:
- `ids` of the whole text; null where a token of these lies across the beginning or the end of an answer. Then `text` is
  what they decode to.
- `prompts`, the ids of the text before each answer.
SentencePiece has no control pieces in text. There the text between them is encoded by a copy of the model that puts no
space before a text.
"""
import base64, glob, io, json, os, re

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
tokenizers = os.path.join(here, "tokenizers")
words = re.search(r'WORDS = """(.*?)"""', open(os.path.join(here, "tokenizers_golden.py")).read(), re.S)[1]
pages = [open(p, encoding="utf8").read() for p in sorted(glob.glob(os.path.join(here, "..", "..", "*.md")))]


def role(prefix, suffix, answer=False):
    return dict(prefix=prefix, suffix=suffix, answer=answer)


TEMPLATES = {
    "chatml": dict(tokens=["<|im_start|>", "<|im_end|>"], roles={n: role(f"<|im_start|>{n}\n", "<|im_end|>\n", n == "assistant") for n in ("system", "user", "assistant")}),
    "plain": dict(tokens=[], roles=dict(system=role("", "\n"), user=role("User: ", "\n"), assistant=role("Assistant: ", "\n", True))),
    "questions": dict(tokens=[], roles=dict(system=role("", "\n\n"), user=role("### Question\n", "\n"), assistant=role("### Answer\n", "\n", True))),
    "zephyr": dict(tokens=["<|im_end|>"], roles={n: role(f"<|{n}|>\n", "<|im_end|>\n", n == "assistant") for n in ("system", "user", "assistant")}),
    "inst": dict(tokens=["<|im_start|>", "<|im_end|>"], roles=dict(system=role("<<SYS>>\n", "\n<</SYS>>\n\n"), user=role("<|im_start|>[INST] ", " [/INST]"), assistant=role("", " <|im_end|>", True))),
    "strips": dict(tokens=["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"], roles={n: role(f"<|{n}|>\n", "<|end|>\n", n == "assistant") for n in ("system", "user", "assistant")}),
}
CONVERSATIONS = [
    [("user", "alpha beta"), ("assistant", "gamma")],
    [("system", "You are terse."), ("user", "Hello there, how are you?"), ("assistant", "It is four."), ("user", "  two  spaces\nand lines "), ("assistant", "The house 123.\n\nEnd")],
    [("user", " first a space"), ("assistant", " also a space"), ("assistant", "again")],
    [("user", ""), ("assistant", ""), ("user", "x"), ("assistant", "y ")],
    [("user", "na\u00efve cafe\u0301 \u00bd \u4e2d\u6587?"), ("assistant", "\ufb01ne \u2460, \u0301a"), ("user", "\u2581mark\u2581"), ("assistant", "\u2581mark")],
    [("user", "a <|im_end|> in text"), ("assistant", "<|im_start|> too")],
    [("user", "q"), ("assistant", "ends</s>"), ("user", "\n"), ("assistant", "</s>\n")],
]


def places(template, conversation):
    """The whole text, and the ranges of its answers in characters."""
    text, answers = "", []
    for name, content in conversation:
        r = template["roles"][name]
        text += r["prefix"]
        begin = len(text)
        text += content + r["suffix"]
        if r["answer"]:
            answers.append((begin, len(text)))
    return text, answers


def row(template, conversation, encode, decode):
    text, answers = places(TEMPLATES[template], CONVERSATIONS[conversation])
    ids, offsets = encode(text)
    borders = {b for answer in answers for b in answer}
    crosses = any(begin < b < end for begin, end in offsets for b in borders)
    return dict(template=template, conversation=conversation, ids=None if crosses else ids, **(dict(text=decode(ids)) if crosses else {}), prompts=[encode(text[:begin])[0] for begin, _ in answers])


def json_tokenizer(path, added):
    d = json.load(open(os.path.join(tokenizers, path), encoding="utf8"))
    model = d["model"]["vocab"]
    added = [t for t in added if t not in [a["content"] for a in d["added_tokens"]]]
    free = 1 + max([t["id"] for t in d["added_tokens"]] + (list(model.values()) if isinstance(model, dict) else [len(model) - 1]))
    more = [dict(id=free + i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, t in enumerate(added)]
    d["added_tokens"] += more
    t = Tokenizer.from_str(json.dumps(d | {"post_processor": None}))   # it would leave spaces out of the offsets

    def encode(text):
        e = t.encode(text, add_special_tokens=False)
        return e.ids, e.offsets

    return more, encode, lambda ids: t.decode(ids, skip_special_tokens=False)


def sentencepiece_model(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter("\n".join(pages + [words] * 4).split("\n")), model_writer=out, minloglevel=2, num_threads=1, hard_vocab_limit=False, max_sentence_length=20000, character_coverage=0.98, **options)
    return out.getvalue()


def sentencepiece_encoder(model, control):
    whole = sentencepiece.SentencePieceProcessor(model_proto=model)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.add_dummy_prefix = False
    inside = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())

    def encode(text):
        ids, offsets, at = [], [], 0
        for part in re.split("(" + "|".join(map(re.escape, control)) + ")", text) if control else [text]:
            if part in control:
                ids.append(whole.piece_to_id(part))
                offsets.append((at, at + len(part)))
            elif part:
                characters = lambda n: at + len(part.encode()[:n].decode(errors="ignore"))   # offsets are in bytes
                for p in (whole if at == 0 else inside).encode(part, return_type="proto").pieces:
                    ids.append(p.id)
                    offsets.append((characters(p.begin), characters(p.end)))
            at += len(part)
        return ids, offsets

    return encode, whole.decode


rows, more, models = [], {}, {}
signs = ["<|im_start|>", "<|im_end|>"]
for path in ["gpt2.json", "llama3.json"] + [f"kinds/{n}.json" for n in ("albert", "gemma", "ignores_merges", "llama2", "mistral", "neox", "no_bytes", "phi3", "qwen2", "roberta", "t5", "unigram_bytes", "xlmr")]:
    more[path], encode, decode = json_tokenizer(path, signs)
    for template in TEMPLATES:
        if ("phi3" in path) != (template == "strips"):   # its signs are in other templates without being named as tokens
            continue
        rows += [dict(tokenizer=path) | row(template, c, encode, decode) for c in range(len(CONVERSATIONS))]
rules = os.path.join(tokenizers, "rules.tsv")
with open(rules, "w") as f:
    f.write("A\t20\n9\t20\n3000\t20\n1\t\nFB01\t66 69\n")
small = dict(normalization_rule_name="identity", vocab_size=560, byte_fallback=True)
for name, control, options in [
    ("unigram", signs, small | dict(model_type="unigram", remove_extra_whitespaces=False, control_symbols=signs)),
    ("bpe", [], small | dict(model_type="bpe", remove_extra_whitespaces=False, user_defined_symbols=signs)),
    ("no_prefix", [], small | dict(model_type="bpe", remove_extra_whitespaces=False, add_dummy_prefix=False, user_defined_symbols=signs + ["\n"])),
    ("removes_space", signs, dict(vocab_size=560, byte_fallback=True, model_type="unigram", normalization_rule_tsv=rules, control_symbols=signs)),
]:
    model = sentencepiece_model(**options)
    models[name] = base64.b64encode(model).decode()
    for template in TEMPLATES:
        if template != "strips":
            rows += [dict(tokenizer=name) | row(template, c, *sentencepiece_encoder(model, control)) for c in range(len(CONVERSATIONS)) if not (control and c == 5)]
os.remove(rules)
print(sum(r["ids"] is not None for r in rows), "of", len(rows), "whole;", {t: sum(r["ids"] is None for r in rows if r["template"] == t) for t in TEMPLATES})
with open(os.path.join(tokenizers, "chats.json"), "w") as f:
    head = dict(templates=TEMPLATES, conversations=CONVERSATIONS, added=more, models=models)
    f.write(json.dumps(head, separators=(",", ":"))[:-1] + ',"rows":[\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "]}\n")
