// The commonest names of settings in torchrun, DeepSpeed, Megatron, transformers and nanoGPT, and the search.
#include "tools/common/foreign_words.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/nearest.h"
#include "tools/common/foreign_by_program.h"
#include "tools/common/foreign_files.h"
#include "tools/common/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace trainyard::tools {

namespace {

using Entry = ForeignName;

constexpr const char* shape = shape_is_elsewhere;
constexpr const char* by_launcher = "ranks come from the launcher: mpirun -n 4 train ..., or srun --mpi=pmix train ...";
constexpr const char* cut =
    "ranks that are neither tensor-parallel nor pipeline stages are data-parallel: as many as the launcher starts, "
    "divided by --tensor-parallel and --pipeline-parallel";

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"lr", "max-lr", "peak-lr", "learning-rate-max"}, "learning-rate", ""},
      {{"min-lr", "lr-end", "end-lr"}, "final-learning-rate", ""},
      {{"lr-scheduler", "lr-scheduler-type", "lr-decay-style", "scheduler"}, "lr-schedule", ""},
      {{"warmup", "warmup-iters", "num-warmup-steps", "lr-warmup-iters", "lr-warmup-steps"},
       "warmup-steps",
       "in steps"},
      {{"warmup-ratio"}, "warmup-steps", "a ratio of 0.01 is --warmup-steps 1%"},
      {{"batch-size", "bs", "per-device-train-batch-size", "per-device-batch-size", "per-gpu-train-batch-size",
        "train-micro-batch-size-per-gpu", "micro-batch-size", "device-batch-size"},
       "micro-batch",
       "sequences a micro-batch on one rank; --global-batch is the whole step's"},
      {{"train-batch-size", "global-batch-size", "total-batch-size", "effective-batch-size"},
       "global-batch",
       "sequences a step, all ranks together"},
      {{"gradient-accumulation-steps", "gradient-accumulation", "grad-accum", "accumulation-steps",
        "accumulate-grad-batches"},
       "global-batch",
       "a step accumulates global-batch / micro-batch / ranks micro-batches"},
      {{"epochs", "epoch", "num-epochs", "num-train-epochs", "max-epochs"},
       "steps",
       "runs are counted in steps; one epoch is tokens / (global-batch x sequence) of them"},
      {{"max-steps", "num-steps", "total-steps", "train-iters", "max-iters", "iters", "iterations", "num-iterations",
        "train-steps"},
       "steps",
       ""},
      {{"zero-stage", "stage", "zero-optimization", "fsdp"}, "zero", "0 to 3"},
      {{"zero-hpz-partition-size", "hpz", "mics-shard-size", "mics", "hsdp", "hybrid-shard",
        "data-parallel-shard-degree"},
       "zero-group",
       "data-parallel ranks that shard the weights of ZeRO 3"},
      {{"zero-quantized-gradients", "qgz", "hierarchical-allreduce", "hierarchical-reduction"},
       "reduction-ranks-per-node",
       "gradients are added inside of nodes first, in f32"},
      {{"nproc",         "nproc-per-node", "num-gpus",   "num-nodes",   "nnodes",
        "nodes",         "gpus",           "world-size", "n",           "np",
        "num-processes", "local-rank",     "node-rank",  "master-addr", "master-port",
        "rdzv-endpoint", "rdzv-backend",   "standalone", "hostfile",    "ranks"},
       "",
       by_launcher},
      {{"tensor-model-parallel-size", "tensor-parallel-size", "tp-size"}, "tensor-parallel", "ranks"},
      {{"pipeline-model-parallel-size", "pipeline-parallel-size", "pp-size", "pipeline-stages", "stages"},
       "pipeline-parallel",
       "stages"},
      {{"expert-model-parallel-size", "expert-parallel-size", "ep-size", "moe-expert-parallel-size"},
       "expert-parallel",
       "ranks"},
      {{"virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank", "virtual-pipeline", "vpp",
        "chunks", "num-chunks"},
       "virtual-stages",
       "of each pipeline stage, with --pipeline-schedule interleaved"},
      {{"pipe-schedule", "pipeline-order", "pp-schedule"}, "pipeline-schedule", "naive, gpipe, 1f1b, interleaved"},
      {{"partition-method", "pipe-partition-method", "split-points", "balance"},
       "partition",
       "uniform, parameters, flops, type:REGEX, or 0,3,6"},
      {{"dp", "data-parallel", "data-parallel-size"}, "", cut},
      {{"bf16", "fp16", "half", "mixed-precision", "amp", "precision", "torch-dtype", "data-type"},
       "dtype",
       "--dtype bf16 or fp16 keeps an f32 master",
       true},
      {{"fp32", "float32", "tf32"}, "dtype", "--dtype f32 is the default", true},
      {{"seq-len", "seq-length", "sequence-length", "max-seq-length", "max-seq-len", "block-size", "context-length",
        "max-length", "ctx", "context"},
       "sequence",
       ""},
      {{"save-steps", "save-interval", "checkpoint-interval", "checkpoint-every", "save-freq"}, "save-every", ""},
      {{"save-total-limit", "keep-last", "max-checkpoints"}, "keep", ""},
      {{"eval-steps", "eval-interval", "eval-every", "evaluation-strategy", "eval-strategy", "val-every"},
       "validate-every",
       ""},
      {{"eval-iters", "eval-samples", "val-samples"}, "validation-sequences", ""},
      {{"resume-from-checkpoint", "resume-from", "load", "ckpt", "load-checkpoint", "restore"},
       "resume",
       "the same command again resumes by itself"},
      {{"init", "init-checkpoint", "pretrained", "finetune", "finetune-from", "init-weights"}, "init-from", ""},
      {{"output-dir", "out-dir", "out", "o", "save", "save-dir", "run-dir", "run", "log-dir", "work-dir",
        "default-root-dir"},
       "output",
       ""},
      {{"model-name", "model-name-or-path", "model-path"},
       "model",
       "a shape, with random weights; weights of Hugging Face come by convert-checkpoint and --init-from"},
      {{"arch", "model-type", "config-name", "architecture", "preset", "m"}, "model", ""},
      {{"ckpt", "checkpoint-path", "model", "model-path", "model-name-or-path", "out-dir", "run", "load", "pretrained"},
       "checkpoint",
       "a checkpoint's folder, or a run's"},
      {{"dataset", "dataset-name", "data-path", "data-dir", "train-file", "train-data", "train-data-path",
        "dataset-path"},
       "data",
       "the folder that shard-data made"},
      {{"file", "files", "text", "in", "i", "train-file", "data", "dataset", "corpus", "text-file"}, "input", ""},
      {{"input", "text", "start", "p"}, "prompt", ""},
      {{"vocab-file", "tokenizer-model", "tokenizer-path", "tokenizer-name", "spm", "sentencepiece"},
       "tokenizer",
       "bytes, a SentencePiece model, or a tokenizer.json"},
      {{"val-split", "validation-split", "val-ratio", "eval-split", "split-ratio"},
       "validation",
       "a share of the documents"},
      {{"max-new-tokens", "max-tokens", "num-tokens", "length", "max-length", "n-predict", "n"}, "tokens", ""},
      {{"temp", "t"}, "temperature", ""},
      {{"top-k-sampling", "k"}, "top-k", ""},
      {{"nucleus", "p"}, "top-p", ""},
      {{"max-grad-norm", "grad-clip", "clip-grad", "gradient-clipping", "gradient-clip-val", "clip-grad-norm"},
       "clip",
       ""},
      {{"wd"}, "weight-decay", ""},
      {{"adam-beta1", "beta-1"}, "beta1", ""},
      {{"adam-beta2", "beta-2"}, "beta2", ""},
      {{"adam-epsilon", "adam-eps", "eps"}, "epsilon", ""},
      {{"optim", "optimizer-type", "optimizer-name"}, "optimizer", our_optimizers()},
      {{"sgd-momentum"}, "momentum", "of --optimizer sgd"},
      {{"muon-momentum"}, "momentum", "of --optimizer muon"},
      {{"deterministic", "deterministic-mode", "use-deterministic-algorithms"},
       "reduction",
       "every run repeats its bits; ordered, the default, gives the same on every layout"},
      {{"cpu-offload", "offload-optimizer", "offload-param", "zero-offload", "nvme-offload", "offload-states",
        "cpu-offloading", "optimizer-cpu-offload", "offload-optimizer-device", "offload-param-device"},
       "offload",
       "optimizer=host,parameters=host on a GPU; disk in place of host wants --offload-dir"},
      {{"nvme-path", "offload-folder", "offload-path"}, "offload-dir", ""},
      {{"compile", "torch-compile", "jit", "use-flash-attn", "flash-attn", "flash-attention", "attn-implementation",
        "torch-compile-backend", "torch-compile-mode", "torchdynamo", "jit-mode-eval", "use-ipex", "use-liger-kernel",
        "attention-backend", "transformer-impl"},
       "",
       "nothing to switch on: kernels are compiled with the program, and attention never stores its scores"},
      {{"num-return-sequences", "num-samples", "num-sequences"}, "samples", ""},
      {{"gradient-checkpointing", "activation-checkpointing", "checkpoint-activations", "recompute-activations",
        "recompute-granularity"},
       "recompute",
       "--recompute selective or full"},
      {{"random-seed", "manual-seed"}, "seed", ""},
      {{"mlm", "masked-lm", "mlm-loss"},
       "objective",
       "a model whose file says causal = \"off\" in [attention] learns hidden tokens"},
      {{"mlm-probability", "mask-prob", "mask-probability", "masked-lm-prob", "noise-density"}, "mask-rate", ""},
      {{"mean-noise-span-length", "mean-span-length", "poisson-lambda", "mask-span-length"}, "mask-span", ""},
      {{"whole-word-mask", "whole-word-masking", "do-whole-word-mask", "wwm"}, "mask-words", "on"},
      {{"gpu", "cuda", "cpu", "use-cuda", "use-cpu", "no-cuda", "accelerator"}, "device", "cpu, cuda or auto"},
      {{"backend", "dist-backend", "ddp-backend", "distributed-backend"}, "communicator", ""},
      {{"num-workers", "workers", "dataloader-num-workers", "cpus", "jobs", "j", "num-threads"},
       "threads",
       "of compute; loading has a thread of its own"},
      {{"timeout", "ddp-timeout", "dist-timeout"}, "hang-timeout", "in seconds"},
      {{"logging-steps", "log-interval", "log-every", "report-to", "wandb", "tensorboard"},
       "",
       "every step is in metrics.jsonl of the run folder, which inspect shows"},
      {{"hidden-size", "n-embd", "d-model", "dim", "embed-dim"}, "hidden", ""},
      {{"num-layers", "n-layer", "n-layers", "num-hidden-layers"}, "layers", ""},
      {{"num-attention-heads", "n-head", "n-heads"}, "heads", ""},
      {{"num-key-value-heads", "n-kv-heads", "num-query-groups"}, "kv-heads", ""},
      {{"ffn-hidden-size", "intermediate-size", "n-inner", "d-ff", "ffn-dim"}, "ffn", ""},
      {{"vocab-size", "vocab", "n-vocab"}, "vocabulary", ""},
      {{"max-position-embeddings", "block-size", "n-positions", "n-ctx", "context-length", "max-seq-len", "sequence"},
       "context",
       ""},
      {{"tie-word-embeddings", "tie-embeddings", "weight-tying"}, "tied", ""},
      {{"head-dim", "kv-channels", "d-head", "d-kv"}, "head-size", ""},
      {{"num-encoder-layers", "encoder-num-layers"}, "encoder-layers", ""},
      {{"num-decoder-layers", "decoder-num-layers"}, "decoder-layers", ""},
      {{"relative-attention-num-buckets", "relative-attention-buckets"}, "relative-buckets", ""},
      {{"relative-attention-max-distance"}, "relative-distance", ""},
      {{"position-embedding-type"}, "positions", "learned, rotary or relative"},
      {{"feed-forward-proj"}, "activation", "geglu-tanh is T5's gated-gelu"},
      {{"decoder-start-token-id", "decoder-start-token"}, "decoder-start", ""},
      {{"qk-layernorm", "use-qk-norm", "qk-layer-norm"}, "qk-norm", "head, or width as in OLMo 2"},
      {{"rope-theta", "rope-base", "rotary-emb-base"}, "rotary-base", ""},
      {{"rope-scaling", "rope-type"}, "rotary-scaling", ""},
      {{"rope-scaling-factor"}, "rotary-factor", ""},
      {{"original-max-position-embeddings"}, "rotary-original", ""},
      {{"partial-rotary-factor", "rotary-pct", "rotary-percent"}, "rotary-fraction", ""},
      {{"rope-local-base-freq"}, "rotary-local-base", ""},
      {{"rms-norm-eps", "layer-norm-epsilon", "layer-norm-eps", "norm-eps"}, "norm-epsilon", ""},
      {{"hidden-act", "activation-function"}, "activation", ""},
      {{"bias", "use-bias", "add-bias-linear"}, "biases", ""},
      {{"hidden-size", "n-embd", "d-model", "dim", "num-layers", "n-layer", "n-layers", "num-hidden-layers",
        "num-attention-heads", "n-head", "n-heads", "ffn-hidden-size", "vocab-size", "dropout", "hidden-dropout",
        "max-position-embeddings", "layers", "hidden", "heads"},
       "",
       shape},
      {{"world", "gpus", "nodes", "nnodes", "num-nodes", "gpus-per-node", "nproc", "nproc-per-node", "num-gpus", "n",
        "np", "world-size", "dp", "data-parallel", "data-parallel-size"},
       "ranks",
       ""},
      {{"gpu-memory", "memory", "max-memory", "vram", "mem", "memory-limit"}, "device-memory", ""},
      {{"gpu-memory", "memory", "max-memory", "vram", "mem", "device-memory"}, "memory-limit", ""},
      {{"overwrite", "overwrite-output-dir", "f", "yes", "y"}, "force", ""},
      {{"quiet", "q", "silent", "disable-tqdm", "verbose", "v"}, "progress", "never, auto or always"},
      {{"check", "validate", "fsck"}, "verify", ""},
      {{"test", "dryrun", "plan-only", "n"}, "dry-run", ""},
  };
  return all;
}

std::string plain(std::string text) {
  text.erase(0, text.find_first_not_of('-'));
  text = text.substr(0, text.find('='));
  for (auto& c : text) c = c == '_' || c == '.' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The sentence with the names of settings as keys of a file, where keys are asked for. Flags of other programs stay
// flags.
std::string spelled_in(std::string sentence, const std::vector<std::string>& names, Spelling spelling) {
  if (spelling == Spelling::flags) return sentence;
  for (auto at = sentence.find("--"); at != std::string::npos; at = sentence.find("--", at + 1)) {
    const auto end = std::min(sentence.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", at), sentence.size());
    if (std::find(names.begin(), names.end(), sentence.substr(at + 2, end - at - 2)) != names.end())
      sentence.erase(at, 2);
  }
  return sentence;
}

// Settings of a run, which users wrongly look for in the file of a model, and the programs that have them; "" for other
// words. tests/tools/foreign_words_test.cpp compares these lists with the settings that there are.
std::string programs_with(const std::string& word) {
  constexpr std::string_view of_plans_too =
      " adapter tensor-parallel tp sequence-parallel zero zero-group dtype recompute reduction "
      "reduction-ranks-per-node "
      "local-accumulation "
      "gathered-layers "
      "pipeline-parallel pp pipeline-schedule virtual-stages partition expert-parallel ep expert-ranks-per-node "
      "expert-overlap-chunks expert-capacity-buffer threads sequence source-sequence micro-batch global-batch device "
      "data tensor "
      "pipeline fold layer-slots expert-node expert-chunks expert-buffer optimizer moment-dtype ema label-smoothing "
      "master offload "
      "gradient-sums accumulation-order ";
  constexpr std::string_view of_train =
      " learning-rate lr start-learning-rate final-learning-rate lr-schedule schedule warmup-steps decay-steps beta1 "
      "beta2 beta2-decay epsilon momentum nesterov scale-parameter weight-decay decay-embeddings clip loss-scale "
      "skip-outliers group layer-decay steps seed data-temperature max-epochs answers-only document-mask objective "
      "mask-rate mask-span mask-words alternate-sets communicator "
      "offload-dir memory-limit "
      "host-memory machine "
      "output "
      "plan save-every keep resume init-from change stop-after validate-every "
      "validation-sequences save-throttle progress hang-timeout collective-delay trace trace-steps profile-step ";
  const auto among = [&](std::string_view all) {
    return word.find(' ') == std::string::npos && all.find(fmt::format(" {} ", word)) != std::string_view::npos;
  };
  return among(of_plans_too) ? "train and partition-model" : among(of_train) ? "train" : "";
}

std::string no_part_of_a_model(const std::string& setting) {
  return fmt::format(
      "how a model is trained is no part of it: --{} is a setting of {}; settings of a run are for train --config",
      setting, programs_with(setting));
}

}  // namespace

std::string foreign_word_hint(const std::string& word, const std::vector<std::string>& names, Spelling spelling) {
  const auto asked = plain(word);
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const auto spelled = [&](const std::string& name) { return spelling == Spelling::flags ? "--" + name : name; };
  if (has(asked)) return fmt::format("write {}", spelled(asked));
  const bool of_a_model = has("kv-heads"), of_plans = has("device-memory"),
             of_training = of_plans || has("learning-rate");
  if (of_a_model && !programs_with(asked).empty()) return no_part_of_a_model(asked);
  if (of_plans && asked == "config")
    return "plans are made from flags: write each setting as one, such as --micro-batch 2";
  if (of_plans && asked == "plan") return "a plan is what --output FILE writes here, for train --plan FILE";
  for (const auto& e : foreign_names_of_program(names)) {
    if (std::find(e.theirs.begin(), e.theirs.end(), asked) == e.theirs.end()) continue;
    const std::string ours = e.ours, sentence = e.sentence;
    if (ours.empty()) return sentence;
    if (has(ours)) return fmt::format("here it is {}{}", spelled(ours), sentence.empty() ? "" : ": " + sentence);
  }
  const Entry* no_name = nullptr;
  std::string of_a_run;
  for (const auto* table : {&entries(), &more_foreign_names()})
    for (const auto& e : *table) {
      if (std::find(e.theirs.begin(), e.theirs.end(), asked) == e.theirs.end()) continue;
      const std::string ours = e.ours;
      const auto sentence = e.of_training && !of_training ? std::string() : spelled_in(e.sentence, names, spelling);
      if (!ours.empty() && has(ours))
        return fmt::format("here it is {}{}", spelled(ours), sentence.empty() ? "" : ": " + sentence);
      if (ours.empty() && no_name == nullptr) no_name = &e;
      if (of_a_run.empty() && !programs_with(ours).empty()) of_a_run = ours;
    }
  if (of_plans && no_name == nullptr && (programs_with(asked) == "train" || programs_with(of_a_run) == "train"))
    return "a setting of train: plans do not depend on it";
  if (no_name != nullptr && of_training)
    return spelled_in(no_name->sentence, names,
                      spelling);  // advice about training, only for programs that train or plan
  if (of_a_model && !of_a_run.empty()) return no_part_of_a_model(of_a_run);
  // "--training.global_batch_size" and "--optimizer.lr", as torchtitan writes them.
  const auto name = word.substr(0, word.find('='));
  if (const auto dot = name.rfind('.'); spelling == Spelling::flags && dot != std::string::npos)
    return foreign_word_hint(name.substr(dot + 1), names, spelling);
  const auto close = base::resembling(asked, names);
  if (close.empty()) return {};
  return spelling == Spelling::flags ? fmt::format("did you mean --{}?", close)
                                     : fmt::format("did you mean '{}'?", close);
}

void advise_on_other_tools() {
  base::give_advice({[](const std::string& asked, const std::vector<std::string>& names) {
                       return foreign_word_hint(asked, names, Spelling::keys);
                     },
                     refuse_known_json, hugging_face_hint, pickled_weights_hint});
}

}  // namespace trainyard::tools
