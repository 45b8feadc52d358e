// The names that other trainers give to settings of a run.
#include "tools/common/foreign_words.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/config.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/spec/optimizer_kind.h"
#include "tools/common/foreign_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::tools {
namespace {

TEST(ForeignWords, WordsOfOtherTrainersForStages) {
  engine::RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : engine::fields_of(c)) names.push_back(f.name);
  const auto hint = [&](const char* word) { return foreign_word_hint(word, names, Spelling::flags); };
  EXPECT_EQ(hint("--pipeline-model-parallel-size"), "here it is --pipeline-parallel: stages");
  EXPECT_EQ(hint("--tensor-model-parallel-size"), "here it is --tensor-parallel: ranks");
  EXPECT_EQ(hint("--expert-model-parallel-size"), "here it is --expert-parallel: ranks");
  EXPECT_EQ(hint("--num-chunks").find("here it is --virtual-stages: "), 0u);
  EXPECT_EQ(hint("--pp-schedule").find("here it is --pipeline-schedule: "), 0u);
  EXPECT_EQ(hint("--partition-method").find("here it is --partition: "), 0u);
  EXPECT_NE(hint("--dp").find("as many as the launcher starts"), std::string::npos);
  EXPECT_EQ(hint("--tp-size"), "here it is --tensor-parallel: ranks");
  EXPECT_EQ(hint("--pp-size"), "here it is --pipeline-parallel: stages");
  EXPECT_EQ(hint("--deterministic").find("here it is --reduction: every run repeats its bits"), 0u);
  EXPECT_EQ(hint("--cpu-offload").find("here it is --offload: optimizer=host"), 0u);
  EXPECT_EQ(hint("--torch-compile").find("nothing to switch on"), 0u);
  EXPECT_EQ(hint("--context"), "here it is --sequence");
  EXPECT_EQ(hint("--training.global_batch_size").find("here it is --global-batch: "), 0u);
  EXPECT_EQ(hint("--optimizer.lr=0.1"), "here it is --learning-rate");
  EXPECT_EQ(hint("--parallelism.nothing"), "");
}

TEST(ForeignWords, KeysOfT5) {
  plan::ModelConfig m;
  std::vector<std::string> names;
  for (const auto& f : plan::fields_of(m)) names.push_back(f.name);
  const auto hint = [&](const char* word) { return foreign_word_hint(word, names, Spelling::keys); };
  EXPECT_EQ(hint("d_kv"), "here it is head-size");
  EXPECT_EQ(hint("d_ff"), "here it is ffn");
  EXPECT_EQ(hint("num_decoder_layers"), "here it is decoder-layers");
  EXPECT_EQ(hint("relative_attention_num_buckets"), "here it is relative-buckets");
  EXPECT_EQ(hint("relative_attention_max_distance"), "here it is relative-distance");
  EXPECT_EQ(hint("feed_forward_proj"), "here it is activation: geglu-tanh is T5's gated-gelu");
  EXPECT_EQ(hint("decoder_start_token_id"), "here it is decoder-start");
}

TEST(ForeignWords, OptimizersAreThoseThatThereAre) {
  for (const auto& name : plan::optimizer_names())
    EXPECT_EQ(foreign_word_hint("--" + name, {"optimizer"}, Spelling::flags),
              "here it is --optimizer: " + base::listed(plan::optimizer_names(), "or"))
        << name;
}

// In a file the settings are keys, but what other programs have is flags of these.
TEST(ForeignWords, KeysAreNotSpelledAsFlags) {
  engine::RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : engine::fields_of(c)) names.push_back(f.name);
  const auto hint = [&](const char* word) { return foreign_word_hint(word, names, Spelling::keys); };
  EXPECT_EQ(hint("micro_batch_size"),
            "here it is micro-batch: sequences a micro-batch on one rank; global-batch is the whole step's");
  EXPECT_EQ(hint("fp16"), "here it is dtype: dtype bf16 or fp16 keeps an f32 master");
  EXPECT_EQ(hint("cpu_offload"),
            "here it is offload: optimizer=host,parameters=host on a GPU; disk in place of host wants offload-dir");
  EXPECT_EQ(hint("validation_file"),
            "shard-data --validation sets documents of data aside, and validate-every uses them");
}

// What holds of training does not hold of a conversion, which has a dtype, too.
TEST(ForeignWords, SentencesAboutTrainingAreForProgramsThatTrain) {
  EXPECT_EQ(foreign_word_hint("--fp16", {"dtype", "from", "to"}, Spelling::flags), "here it is --dtype");
  EXPECT_EQ(foreign_word_hint("--fp32", {"dtype", "from", "to"}, Spelling::flags), "here it is --dtype");
}

TEST(ForeignWords, PairsAsOtherTranslatorsNameThem) {
  const std::vector<std::string> names{"input",           "output",          "pairs",      "pairs-keys", "tokenizer",
                                       "source-language", "target-language", "max-source", "max-target"};
  const auto hint = [&](const char* word) { return foreign_word_hint(word, names, Spelling::flags); };
  EXPECT_EQ(hint("--source-lang"), "here it is --source-language");
  EXPECT_EQ(hint("--tgt-lang"), "here it is --target-language");
  EXPECT_EQ(hint("--trainpref").find("here it is --pairs: --pairs PREFIX.en:PREFIX.de"), 0u);
  EXPECT_EQ(hint("--joined-dictionary"), "here it is --tokenizer: one for both sides");
  EXPECT_EQ(hint("--destdir"), "here it is --output");
  EXPECT_EQ(hint("--max-source-positions").find("here it is --max-source: "), 0u);
}

// Every setting of train that plans do not have is answered, as is what other trainers call it.
TEST(ForeignWords, PlansDoNotDependOnWhatOnlyTrainHas) {
  engine::RunConfig c;
  plan::Plan p;
  std::vector<std::string> names{"model",         "data",    "output",     "lanes",        "ranks",
                                 "device-memory", "adapter", "adapter-on", "adapter-alpha"};
  for (const auto& f : plan::fields_of(p)) names.push_back(f.name);
  const auto hint = [&](const std::string& word) { return foreign_word_hint("--" + word, names, Spelling::flags); };
  const std::string of_train = "a setting of train: plans do not depend on it";
  for (const auto& f : engine::fields_of(c)) {
    if (std::find(names.begin(), names.end(), f.name) != names.end()) continue;
    if (f.name == "memory-limit") EXPECT_EQ(hint(f.name), "here it is --device-memory");
    else if (f.name == "plan")
      EXPECT_EQ(hint(f.name), "a plan is what --output FILE writes here, for train --plan FILE");
    else EXPECT_EQ(hint(f.name), of_train) << f.name;
  }
  EXPECT_EQ(hint("lr"), of_train);
  EXPECT_EQ(hint("max-grad-norm"), of_train);
  EXPECT_NE(hint("config").find("plans are made from flags"), std::string::npos);
  EXPECT_EQ(hint("zero-stage").find("here it is --zero"), 0u);
  EXPECT_EQ(hint("torch-compile").find("nothing to switch on"), 0u);
}

// What transformers, DeepSpeed and Megatron-LM take, and the flag, or part of the sentence, that answers it.
TEST(ForeignWords, ArgumentsOfOtherTrainers) {
  engine::RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : engine::fields_of(c)) names.push_back(f.name);
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"--do_train", "train always trains"},
      {"--do_eval", "here it is --validate-every: "},
      {"--eval_strategy", "here it is --validate-every"},
      {"--evaluation_strategy", "here it is --validate-every"},
      {"--save_strategy", "here it is --save-every: "},
      {"--overwrite_output_dir", "another --output begins a new one"},
      {"--load_best_model_at_end", "--keep says how many stay"},
      {"--per_device_eval_batch_size", "here it is --micro-batch: "},
      {"--checkpoint", "here it is --init-from: the weights alone; --resume"},
      {"--tokenizer", "shard-data --tokenizer makes them"},
      {"--lora_rank", "--adapter lora:16"},
      {"--load_in_4bit", "no quantization"},
      {"--max_source_length", "here it is --source-sequence: "},
      {"--label_smoothing_factor", "here it is --label-smoothing: "},
      {"--push_to_hub", "convert-checkpoint"},
      {"--dataloader_pin_memory", "nothing to choose"},
      {"--fp16", "here it is --dtype: --dtype bf16"},
      {"--initial-loss-scale", "here it is --loss-scale: dynamic:FIRST"},
      {"--min-loss-scale", "a scale ends at 1"},
      {"--rolling_interval_length", "here it is --skip-outliers: norm:FACTOR"},
      {"--check-for-spiky-loss", "here it is --skip-outliers: skips such a step"},
      {"--run_name", "here it is --output: "},
      {"--data_seed", "here it is --seed: "},
      {"--adafactor", "here it is --optimizer: adafactor, adam"},
      {"--decay_rate", "here it is --beta2-decay: "},
      {"--optim_args", "the optimizers of --optimizer"},
      {"--optim", "here it is --optimizer: adafactor, adam, adamw, lamb, lion, muon or sgd"},
      {"--sgd", "here it is --optimizer: adafactor, adam, adamw, lamb, lion, muon or sgd"},
      {"--lion", "here it is --optimizer: "},
      {"--adam_w_mode", "here it is --optimizer: adamw, or with weight decay in gradients adam"},
      {"--sgd-momentum", "here it is --momentum: "},
      {"--muon-momentum", "here it is --momentum: "},
      {"--rampup-batch-size", "here it is --global-batch: START INCREMENT SAMPLES are START:END:INCREMENT/SAMPLES"},
      {"--store_param_remainders", "here it is --master: remainder"},
      {"--main-grads-dtype", "here it is --gradient-sums: bf16 rounds"},
      {"--grad-reduce-in-bf16", "here it is --gradient-sums: bf16 rounds"},
      {"--wandb_project", "--export tensorboard"},
      {"--deepspeed", "here it is --zero: "},
      {"--zero_hpz_partition_size", "here it is --zero-group: data-parallel ranks"},
      {"--mics_shard_size", "here it is --zero-group: data-parallel ranks"},
      {"--zero_quantized_gradients",
       "here it is --reduction-ranks-per-node: gradients are added inside of nodes first"},
      {"--deepspeed_config=ds.json", "train --config FILE"},
      {"--overlap_comm", "nothing to switch on"},
      {"--overlap-grad-reduce", "nothing to switch on"},
      {"--reduce_bucket_size", "no buckets"},
      {"--stage3_prefetch_bucket_size", "here it is --gathered-layers: "},
      {"--wall_clock_breakdown", "here it is --profile-step: "},
      {"--fsdp_config", "here it is --zero: 3"},
      {"--use-distributed-optimizer", "--zero 1"},
      {"--context-parallel-size", "no context parallelism"},
      {"--num-layers-per-virtual-pipeline-stage", "here it is --virtual-stages: "},
      {"--lr-warmup-fraction", "here it is --warmup-steps: "},
      {"--lr-decay-iters", "here it is --decay-steps: "},
      {"--lr-warmup-init", "here it is --start-learning-rate"},
      {"--no-load-optim", "here it is --init-from: "},
      {"--async-save", "beside the next steps"},
      {"--exit-interval", "here it is --stop-after: "},
      {"--distributed-timeout-minutes", "here it is --hang-timeout: in seconds"},
      {"--reset-attention-mask", "here it is --document-mask: on"},
      {"--num-experts", "train --help-model"},
      {"--disable-bias-linear", "train --help-model"}};
  for (const auto& [theirs, part] : expected) {
    const auto said = foreign_word_hint(theirs, names, Spelling::flags);
    EXPECT_NE(said.find(part), std::string::npos) << theirs << ": " << said;
  }
}

// What users of TRL's SFTTrainer and of peft's LoraConfig write.
TEST(ForeignWords, ArgumentsOfFineTuning) {
  engine::RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : engine::fields_of(c)) names.push_back(f.name);
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"--completion-only-loss", "here it is --answers-only: the set marks answers if shard-data"},
      {"--assistant_only_loss", "here it is --answers-only: the set marks answers if shard-data"},
      {"--train-on-completions", "here it is --answers-only: "},
      {"--train_on_inputs", "here it is --answers-only: leaves prompts out"},
      {"--freeze", "here it is --group: --group 'embedding.*:frozen'"},
      {"--packing", "shard-data --pack best-fit --sequence N"},
      {"--lora-r", "here it is --adapter: "},
      {"--r", "here it is --adapter: "},
      {"--lora-rank", "here it is --adapter: "},
      {"--use-lora", "here it is --adapter: "},
      {"--lora-alpha", "here it is --adapter-alpha"},
      {"--use-rslora", "here it is --adapter-alpha: rsLoRA's scale"},
      {"--target-modules", "here it is --adapter-on: "},
      {"--use-dora", "adapters are LoRA alone"},
      {"--modules-to-save", "nothing else is trained"},
      {"--neftune-noise-alpha", "no noise on embeddings"},
      {"--dataset-text-field", "shard-data makes them, with --json-key"},
      {"--chat-template", "shard-data --chat-template"},
      {"--pad-token", "nothing is padded"},
      {"--use-8bit-adam", "here it is --moment-dtype: "}};
  for (const auto& [theirs, part] : expected) {
    const auto said = foreign_word_hint(theirs, names, Spelling::flags);
    EXPECT_NE(said.find(part), std::string::npos) << theirs << ": " << said;
  }
}

TEST(ForeignWords, ProgramsThatDoNotTrainAnswerForThemselves) {
  struct Program {
    std::vector<std::string> names;
    std::vector<std::pair<const char*, const char*>> expected;
  };
  const std::vector<Program> programs = {
      {{"checkpoint", "prompt", "batch", "context", "top-k", "top-p", "temperature", "tokens", "stop-at", "no-bos",
        "samples", "json", "stream-weights", "threads", "beams", "length-penalty", "target-language"},
       {{"--eos", "here it is --stop-at: "},
        {"--chat", "no chat template is applied"},
        {"--chat-template", "no chat template is applied"},
        {"--repetition-penalty", "there are no penalties"},
        {"--num-beams", "here it is --beams"},
        {"--max-new-tokens", "here it is --tokens"},
        {"--max-length", "here it is --tokens"},
        {"--min-p", "here it is --top-p: there is this and --top-k"},
        {"--batch_size", "here it is --batch: "},
        {"--device", "one process of a CPU"},
        {"--lora", "convert-checkpoint --from peft"}}},
      {{"checkpoint", "tokenizer", "threads", "stream-weights", "input", "batch", "no-bos", "json"},
       {{"--batch-size", "here it is --batch"},
        {"--num-fewshot", "no benchmarks are built in"},
        {"--tasks=arc", "no benchmarks are built in"},
        {"--model_args", "here it is --checkpoint: "},
        {"--model", "here it is --checkpoint: "},
        {"--output_path", "here it is --json: "}}},
      {{"input", "json-key", "chat-template", "pack", "sequence", "end-of-document", "begin-of-document", "threads",
        "special-tokens", "tokenizer", "output"},
       {{"--dataset-text-field", "here it is --json-key"},
        {"--text-column", "here it is --json-key"},
        {"--packing", "here it is --pack: best-fit"},
        {"--assistant-only-loss", "here it is --chat-template: marks answers"},
        {"--eos", "here it is --end-of-document: "},
        {"--dataset_name", "here it is --input: "},
        {"--num_proc", "here it is --threads"},
        {"--padding", "nothing is padded"}}}};
  for (const auto& program : programs)
    for (const auto& [theirs, part] : program.expected) {
      const auto said = foreign_word_hint(theirs, program.names, Spelling::flags);
      EXPECT_NE(said.find(part), std::string::npos) << theirs << ": " << said;
    }
}

// A setting of a run in a model's file is known for what it is, under every name that it has.
TEST(ForeignWords, NoSettingOfARunIsAKeyOfAModel) {
  engine::RunConfig c;
  plan::ModelConfig model;
  plan::ParallelLayout layout;
  std::vector<std::string> keys;
  for (const auto& f : plan::fields_of(model)) keys.push_back(f.name);
  const auto of_plans = plan::fields_of(layout);
  for (const auto& f : engine::fields_of(c)) {
    if (f.name == "lanes" || f.name == "adapter-on" || f.name == "adapter-alpha") continue;  // keys of a model, too
    if (f.name == "model") continue;
    for (const auto& name : f.names()) {
      const auto said = foreign_word_hint(name, keys, Spelling::keys);
      EXPECT_NE(said.find("--" + name + " is a setting of train"), std::string::npos) << name << ": " << said;
      const bool is_of_plans = f.name == "data" || f.name == "device" || f.name == "adapter" ||
                               std::any_of(of_plans.begin(), of_plans.end(), [&](auto& g) { return g.name == f.name; });
      EXPECT_EQ(said.find("train and partition-model") != std::string::npos, is_of_plans) << name << ": " << said;
    }
  }
  const auto said = [&](const char* word) { return foreign_word_hint(word, keys, Spelling::keys); };
  EXPECT_NE(said("batch_size").find("--micro-batch is a setting of train"), std::string::npos) << said("batch_size");
  EXPECT_EQ(said("num_experts"), "here it is experts-count: that is count in the table [experts]");
  EXPECT_EQ(said("experts"), said("num_experts"));
  EXPECT_EQ(said("experts-num"), said("num_experts"));
  EXPECT_EQ(said("moe_router_topk"), "here it is experts-top-k: that is top-k in the table [experts]");
  EXPECT_EQ(said("n_layer"), "here it is layers");
}

}  // namespace
}  // namespace trainyard::tools
