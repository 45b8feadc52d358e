// Arguments of transformers' generate(), of lm-eval and of datasets.
#include "tools/common/foreign_by_program.h"

#include <algorithm>

namespace trainyard::tools {

namespace {

constexpr const char* no_template =
    "no chat template is applied: write the prompt with the prefixes and suffixes of the template that the model was "
    "trained with (the page conversations)";

const std::vector<ForeignName>& names_of_generate() {
  static const std::vector<ForeignName> all = {
      {{"chat", "chat-template", "apply-chat-template", "messages", "system", "system-prompt", "conversation"},
       "",
       no_template},
      {{"eos", "eos-token", "eos-token-id", "stop", "stop-strings", "stop-sequence", "stop-sequences", "stop-token",
        "stop-token-ids", "until", "ignore-eos"},
       "stop-at",
       "end-of-document, the default, or length"},
      {{"min-new-tokens", "min-length"}, "stop-at", "length draws no end before --tokens"},
      {{"repetition-penalty", "repeat-penalty", "presence-penalty", "frequency-penalty", "no-repeat-ngram-size",
        "encoder-repetition-penalty", "bad-words-ids", "logit-bias"},
       "",
       "there are no penalties of tokens: --temperature, --top-k and --top-p choose"},
      {{"min-p", "typical-p", "typical", "epsilon-cutoff", "eta-cutoff", "mirostat", "top-a", "tfs-z"},
       "top-p",
       "there is this and --top-k"},
      {{"num-beams", "n-beams", "beam-size", "beam-width", "beam"}, "beams", "with an encoder"},
      {{"num-beam-groups", "diversity-penalty"}, "beams", "there are no groups of them; --samples draws several texts"},
      {{"lenpen"}, "length-penalty", ""},
      {{"forced-bos-token-id"}, "target-language", "de, for the token <2de>"},
      {{"batch-size", "per-device-eval-batch-size"}, "batch", "with --prompts"},
      {{"dtype", "torch-dtype", "fp16", "bf16", "half", "precision"},
       "",
       "nothing to choose: weights are read as the checkpoint has them"},
      {{"device", "device-map", "gpu", "cuda", "cpu", "n-gpu-layers", "num-gpus", "tensor-parallel-size"},
       "",
       "it runs on one process of a CPU; --threads says how many of its cores"},
      {{"load-in-4bit", "load-in-8bit", "quantize", "quantization"},
       "stream-weights",
       "there is no quantization; this reads weights layer by layer"},
      {{"lora", "peft", "adapter", "lora-path", "peft-model-id"},
       "checkpoint",
       "a checkpoint with adapters; convert-checkpoint --from peft makes one"},
      {{"max-model-len", "ctx-size", "n-ctx"}, "context", ""},
      {{"stream", "streamer"}, "", "nothing to switch on: the text comes token by token"},
      {{"return-full-text", "output-scores", "output-logits", "logprobs", "return-dict-in-generate"},
       "json",
       "text, token ids and log probabilities"},
      {{"add-bos-token", "add-special-tokens"}, "no-bos", "which leaves the first token out"}};
  return all;
}

const std::vector<ForeignName>& names_of_score() {
  constexpr const char* no_tasks =
      "no benchmarks are built in: score answers the requests of one, a line of --input each (the page evaluate)";
  static const std::vector<ForeignName> all = {
      {{"tasks", "task", "num-fewshot", "fewshot", "n-shot", "limit", "benchmark", "include-path", "gen-kwargs",
        "fewshot-as-multiturn"},
       "",
       no_tasks},
      {{"batch-size", "bs", "max-batch-size", "per-device-eval-batch-size"}, "batch", ""},
      {{"apply-chat-template", "chat-template", "system-instruction"}, "", no_template},
      {{"model-args", "pretrained", "peft"}, "checkpoint", "a checkpoint's folder, or a run's"},
      {{"samples", "requests", "prompts", "questions", "data"}, "input", ""},
      {{"output-path", "output", "log-samples", "write-out"}, "json", "on standard output"},
      {{"device", "gpu", "cuda", "cpu", "num-gpus", "tensor-parallel-size", "device-map"},
       "",
       "it runs on one process of a CPU; --threads says how many of its cores"},
      {{"dtype", "torch-dtype", "fp16", "bf16", "half", "precision"},
       "",
       "nothing to choose: weights are read as the checkpoint has them"},
      {{"max-length", "max-seq-length", "context"}, "", "nothing to choose: a model's context decides"},
      {{"add-bos-token"}, "no-bos", "which leaves the first token out"},
      {{"refs", "ref", "reference", "reference-file"}, "references", "with the translations in --input"},
      {{"metrics"}, "metric", "several are separated by commas"},
      {{"tokenize", "tok", "bleu-tokenize"}, "bleu-tokenizer", ""},
      {{"hypotheses", "hypothesis", "hyp", "translations"}, "input", "with --references"},
      {{"confidence-n", "paired-bs", "paired-bs-n", "n-bootstrap"}, "confidence", "and --baseline for pairs"},
      {{"chrf-word-order"}, "metric", "chrf++ has a word order of 2"},
      {{"lowercase", "lc", "chrf-lowercase", "bleu-lowercase", "smooth-method", "bleu-smooth-method", "sentence-level",
        "test-set", "langpair", "width"},
       "",
       "BLEU is scored with case and exponential smoothing, of a whole text (the page translations)"}};
  return all;
}

const std::vector<ForeignName>& names_of_shard_data() {
  static const std::vector<ForeignName> all = {
      {{"dataset-text-field", "text-field", "text-column-name", "content-key"}, "json-key", ""},
      {{"dataset-name", "dataset-config-name", "data-files", "data-file", "input-file", "input-files"},
       "input",
       "files and folders; nothing is downloaded"},
      {{"chat", "messages", "messages-key", "conversation", "conversations", "apply-chat-template", "template",
        "chat-template-path"},
       "chat-template",
       "chatml, plain or a TOML file"},
      {{"completion-only-loss", "assistant-only-loss", "answers-only", "train-on-completions",
        "train-on-responses-only", "mask-prompt", "train-on-inputs"},
       "chat-template",
       "marks answers, and train --answers-only counts them alone"},
      {{"packing", "sample-packing", "packing-strategy", "pack-sequences"}, "pack", "best-fit, with --sequence"},
      {{"eos", "eos-token", "add-eos", "add-eos-token", "append-eos", "eod", "eod-token"},
       "end-of-document",
       "every document gets one; the flag says which token"},
      {{"bos", "bos-token", "add-bos", "add-bos-token", "prepend-bos"}, "begin-of-document", ""},
      {{"add-special-tokens", "split-special-tokens"}, "special-tokens", "read or text"},
      {{"num-proc", "preprocessing-num-workers", "dataset-num-proc"}, "threads", ""},
      {{"padding", "pad-to-max-length", "pad-token", "truncation", "pad-to-multiple-of"},
       "",
       "nothing is padded or cut off: train reads windows of --sequence tokens; --pack best-fit keeps documents whole"},
      {{"shuffle", "seed", "shuffle-seed", "streaming"},
       "",
       "documents stay in the order of the input: train draws the order of windows by its --seed"},
      {{"batch-size", "writer-batch-size", "chunk-size"}, "", "nothing to choose: text is read in parts, in order"}};
  return all;
}

}  // namespace

const std::vector<ForeignName>& foreign_names_of_program(const std::vector<std::string>& names) {
  static const std::vector<ForeignName> none;
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("learning-rate") || has("device-memory")) return none;
  return has("top-p")      ? names_of_generate()
         : has("json-key") ? names_of_shard_data()
         : has("no-bos")   ? names_of_score()
                           : none;
}

}  // namespace trainyard::tools
