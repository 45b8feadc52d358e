"""Tokenizers of the families of published models: their own normalizers, pre-tokenizers and decoders, with vocabularies that are trained on given texts.

    python3 tests/golden/tokenizer_families.py FOLDER [SIZE]     writes FOLDER/NAME.json of each, trained on texts of this machine, for tokenizer_equality.py

Each function of FAMILIES takes texts and the size of the vocabulary, and gives what a tokenizer.json holds. tokenizer_kinds.py and
bench/data/compare_tokenizer_kinds.py use them, too. Needs the packages `tokenizers` and `sentencepiece`.
"""
import functools, glob, io, json, os, sys

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def added(content, **flags):
    return dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) | flags


def with_added(description, tokens):
    """The tokens by their ids in the vocabulary, or behind it."""
    model = description["model"]
    vocabulary = model["vocab"] if isinstance(model["vocab"], dict) else {t: i for i, (t, _) in enumerate(model["vocab"])}
    taken, free = {}, max(vocabulary.values()) + 1
    for t in tokens:
        if t["content"] in vocabulary:
            taken[vocabulary[t["content"]]] = t
        else:
            taken[free] = t
            free += 1
    description["added_tokens"] = [{"id": i} | t for i, t in sorted(taken.items())]
    return description


def part(one):
    return json.loads(one.__getstate__()) if one is not None else None


def description_of(tokenizer):
    return json.loads(tokenizer.to_str())


@functools.cache
def llama_vocabulary(texts, size, first):
    """A vocabulary as SentencePiece's BPE makes it: control tokens, bytes, tokens, characters; words begin with the mark."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=120, special_tokens=[]))
    model = description_of(t)["model"]
    order = [x for x, _ in sorted(model["vocab"].items(), key=lambda x: x[1])]
    # Runs of the mark, as Llama and Gemma have them.
    merges, runs = [list(m) for m in model["merges"]], []
    for n in (2, 4, 8, 16):
        half = "\u2581" * (n // 2)
        merges.append([half, half])
        runs.append(half * 2)
    names = list(dict.fromkeys(list(first) + BYTES + order + runs))
    return {name: i for i, name in enumerate(names)}, merges


def sentencepiece_bpe(texts, size, first, normalizer, pre_tokenizer, decoder, **model):
    vocabulary, merges = llama_vocabulary(tuple(texts), size, tuple(first))
    vocabulary, merges = dict(vocabulary), [list(m) for m in merges]
    merges = [" ".join(m) for m in merges] if model.pop("as_strings", False) else merges
    return dict(version="1.0", truncation=None, padding=None, normalizer=part(normalizer), pre_tokenizer=part(pre_tokenizer), post_processor=None, decoder=part(decoder),
                model=dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=True, byte_fallback=True,
                           ignore_merges=False, vocab=vocabulary, merges=merges) | model)


def llama2(texts, size):
    d = sentencepiece_bpe(texts, size, ["<unk>", "<s>", "</s>"], normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None,
                          decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]), as_strings=True)
    d["post_processor"] = part(processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]))
    return with_added(d, [added("<unk>"), added("<s>"), added("</s>")])


def mistral(texts, size):
    """Metaspace without split, first; some control tokens."""
    d = sentencepiece_bpe(texts, size, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                          decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    return with_added(d, [added("<unk>"), added("<s>"), added("</s>"), added("[INST]"), added("[/INST]")])


def phi3(texts, size):
    d = sentencepiece_bpe(texts, size, ["<unk>", "<s>", "</s>"], normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None,
                          decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    tokens = [added("<unk>"), added("<s>"), added("</s>", rstrip=True, special=False)]
    tokens += [added("<|endoftext|>")] + [added(f"<|{n}|>", rstrip=True) for n in ("assistant", "user", "system", "end")]
    return with_added(d, tokens)


def gemma(texts, size):
    d = sentencepiece_bpe(texts, size, ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"),
                          decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]))
    vocabulary, merges = d["model"]["vocab"], d["model"]["merges"]
    for a, b in (("\n", "\n"), ("\n\n", "\n\n"), ("\t", "\t"), (".", "\u2581"), (".\u2581", "\u2581")):   # tokens of line ends, and one that crosses into a word
        for token in (a, b, a + b):
            vocabulary.setdefault(token, len(vocabulary))
        merges.append([a, b])
    tokens = [added("<pad>"), added("<eos>"), added("<bos>"), added("<unk>"), added("<mask>"), added("<start_of_turn>"), added("<h1>", special=False), added("\n\n\n", special=False)]
    return with_added(d, tokens)


def no_bytes(texts, size):
    """No bytes: unknown characters, fused or not."""
    d = sentencepiece_bpe(texts, size, ["<unk>"], None, pre_tokenizers.Metaspace(), decoders.Metaspace(), byte_fallback=False)
    return with_added(d, [added("<unk>")])


def no_bytes_apart(texts, size):
    d = no_bytes(texts, size)
    d["model"]["fuse_unk"] = False
    return d


def some_bytes(texts, size):
    """Bytes of which some have no token."""
    d = llama2(texts, size)
    for b in (0xE4, 0xC3, 0x0A):
        d["model"]["vocab"].pop(f"<0x{b:02X}>")
    return d


def ignores_merges(texts, size):
    d = mistral(texts, size)
    d["model"]["ignore_merges"] = True
    d["pre_tokenizer"]["split"] = True
    vocabulary = d["model"]["vocab"]
    for word in ("\u2581unreachable", "\u2581the\u2581", "zzzz"):
        vocabulary.setdefault(word, max(vocabulary.values()) + 1)
    return with_added(d, d.pop("added_tokens") and [added("<s>")])


def byte_level(texts, size, pre_tokenizer, normalizer=None, special=("<|endoftext|>",), **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer, t.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        t.normalizer = normalizer
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return description_of(t)


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2(texts, size):
    return byte_level(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=False))


def roberta(texts, size):
    d = byte_level(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    d["post_processor"] = part(processors.RobertaProcessing(("</s>", 2), ("<s>", 0)))
    return with_added(d, [added("<s>"), added("<pad>"), added("</s>"), added("<unk>"), added("<mask>", lstrip=True)])


def neox(texts, size):
    d = byte_level(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), normalizers.NFC(), ["<|endoftext|>", "<|padding|>"])
    return with_added(d, [added("<|endoftext|>"), added("<|padding|>")] + [added(" " * n, special=False, normalized=True) for n in range(24, 1, -1)])


def llama3(texts, size):
    d = byte_level(texts, size, split_then_bytes(LLAMA3), special=[])
    d["model"]["ignore_merges"] = True
    return with_added(d, [added("<|begin_of_text|>"), added("<|end_of_text|>")])


def qwen2(texts, size):
    return byte_level(texts, size, split_then_bytes(QWEN2), normalizers.NFC(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def olmo2(texts, size):
    return byte_level(texts, size, split_then_bytes(LLAMA3), None, ["<|endoftext|>", "<|pad|>"])


def starcoder(texts, size):
    return byte_level(texts, size, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def falcon(texts, size):
    steps = [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    return byte_level(texts, size, pre_tokenizers.Sequence(steps))


def bert(texts, size, **how):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizers.BertNormalizer(**how), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, limit_alphabet=300, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return description_of(t)


def bert_uncased(texts, size):
    return bert(texts, size)


def bert_cased(texts, size):
    return bert(texts, size, lowercase=False)


def bert_accents(texts, size):
    return bert(texts, size, clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)


def fields(raw):
    """(number, value) of a message in protobuf's encoding."""
    at = 0

    def integer():
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(raw):
        tag = integer()
        if tag & 7 == 0:
            yield tag >> 3, integer()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or integer()
            yield tag >> 3, raw[at:at + size]
            at += size


def sentencepiece_model(texts, size, **options):
    out = io.BytesIO()
    lines = [line[:2000] for t in texts for line in t.split("\n") if line.strip()]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=size, minloglevel=2, num_threads=1, **options)
    return out.getvalue()


@functools.cache
def nmt_nfkc(fold=False):
    """The charsmap that SentencePiece itself makes."""
    model = sentencepiece_model(["one two three"] * 10, 14, model_type="char", normalization_rule_name="nmt_nfkc_cf" if fold else "nmt_nfkc")
    return dict(fields(dict(fields(model))[3]))[2]


def unigram(texts, size, normalizer, pre_tokenizer, decoder, special, unknown, **model):
    m = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(texts, size, model_type="unigram", hard_vocab_limit=False, character_coverage=0.999, normalization_rule_name="identity"))
    vocabulary = [[s, 0.0] for s in special] + [[m.id_to_piece(i), m.get_score(i)] for i in range(3, m.get_piece_size())]
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=part(normalizer), pre_tokenizer=part(pre_tokenizer), post_processor=None, decoder=part(decoder),
                model=dict(type="Unigram", unk_id=special.index(unknown), vocab=vocabulary, byte_fallback=False) | model)


def t5(texts, size, charsmap_of=nmt_nfkc):
    d = unigram(texts, size, normalizers.Precompiled(charsmap_of()), pre_tokenizers.Metaspace(), decoders.Metaspace(), ["<pad>", "</s>", "<unk>"], "<unk>")
    d["post_processor"] = part(processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]))
    return with_added(d, [added("<pad>"), added("</s>"), added("<unk>")] + [added(f"<extra_id_{i}>") for i in range(3)])


def t5_old(texts, size, charsmap_of=nmt_nfkc):
    return t5(texts, size, charsmap_of) | {"pre_tokenizer": part(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))}


def xlmr(texts, size, charsmap_of=nmt_nfkc):
    steps = normalizers.Sequence([normalizers.Precompiled(charsmap_of()), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    d = unigram(texts, size, steps, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), decoders.Metaspace(), ["<s>", "<pad>", "</s>", "<unk>"], "<unk>")
    return with_added(d, [added("<s>"), added("<pad>"), added("</s>"), added("<unk>"), added("<mask>", lstrip=True)])


def albert(texts, size, charsmap_of=lambda: nmt_nfkc(True)):
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(charsmap_of()),
             normalizers.Replace(Regex(" {2,}"), " ")]
    d = unigram(texts, size, normalizers.Sequence(steps), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), decoders.Metaspace(),
                ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], "<unk>")
    return with_added(d, [added("<pad>"), added("<unk>"), added("[CLS]"), added("[SEP]"), added("[MASK]", lstrip=True)])


def unigram_bytes(texts, size):
    """Whole texts in one piece, bytes for what is unknown, other normalizers."""
    steps = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(r"[0-9]{3}"), "#")])
    d = unigram(texts, size, steps, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), ["<unk>", "<s>", "</s>"], "<unk>", byte_fallback=True)
    d["model"]["vocab"] += [[b, -20.0 - i / 1000] for i, b in enumerate(BYTES)]
    return with_added(d, [added("<unk>"), added("<s>"), added("</s>"), added("Zug", special=False, normalized=True), added("cat", special=False, normalized=True, single_word=True)])


def unigram_byte_level(texts, size):
    names = ["<unk>"] + sorted(pre_tokenizers.ByteLevel.alphabet())
    d = unigram(texts, size, normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]), pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel(), names, "<unk>")
    d["model"]["vocab"] = [[t, -12.0 if len(t) == 1 else s] for t, s in [[t.replace("\u2581", "\u0120"), s] for t, s in d["model"]["vocab"]]]
    d["model"]["vocab"] = [list(x) for x in {t: s for t, s in d["model"]["vocab"]}.items()]
    return with_added(d, [added("<unk>")])


def words(texts, size):
    """WordPiece between other steps."""
    d = bert(texts, size)
    d["normalizer"] = part(normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip()]))
    d["pre_tokenizer"] = part(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("removed"), pre_tokenizers.Split("e", "merged_with_next"), pre_tokenizers.CharDelimiterSplit("|")]))
    return d


def behaviors(texts, size):
    steps = [pre_tokenizers.Split(Regex(r"[aeiou]+"), "contiguous"), pre_tokenizers.Split("n", "merged_with_previous"), pre_tokenizers.Split(Regex(r"\s+"), "removed"),
             pre_tokenizers.Split(Regex(r"[A-Z]"), "merged_with_next"), pre_tokenizers.Split(Regex(r"[^;]+"), "merged_with_previous", invert=True), pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Split(Regex("x*"), "isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return byte_level(texts, size, pre_tokenizers.Sequence(steps), normalizers.Sequence([normalizers.Replace(Regex(r"([a-z])[0-9]"), "$1"), normalizers.Prepend("<"), normalizers.NFKC()]))


FAMILIES = (llama2, mistral, phi3, gemma, no_bytes, no_bytes_apart, some_bytes, ignores_merges, gpt2, roberta, neox, llama3, qwen2, olmo2, starcoder, falcon, bert_uncased, bert_cased, bert_accents,
            t5, t5_old, xlmr, albert, unigram_bytes, unigram_byte_level, words, behaviors)


def main():
    folder, size = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    paths = sorted(glob.glob("/usr/share/doc/*/copyright") + glob.glob("/usr/lib/python3*/*.py"))[:150]
    own = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers_golden.py"), encoding="utf8").read()
    texts = [open(p, encoding="utf8", errors="replace").read()[:20000] for p in paths] + [own] * 8
    os.makedirs(folder, exist_ok=True)
    for family in FAMILIES:
        with open(os.path.join(folder, family.__name__ + ".json"), "w") as f:
            json.dump(family(texts, size), f, ensure_ascii=False)


if __name__ == "__main__":
    main()
