// The names that other trainers give to settings of a run.
#include "libtrain/base/error.h"
#include "libtrain/base/foreign_words.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/plan/model_file/model_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {
namespace {

TEST(Config, AScheduleOfStagesHasAFlagOfItsOwn) {
  RunConfig c;
  auto fields = fields_of(c);
  auto& schedule = base::field_named(fields, "schedule", "a run");
  for (const std::string word : {"1f1b", "gpipe", "naive", "interleaved"}) {
    try {
      schedule.set(word, "--lr-schedule");
      ADD_FAILURE() << word;
    } catch (const base::UsageError& e) {
      EXPECT_EQ(e.hint(), "--pipeline-schedule " + word);
    }
  }
  schedule.set("linear", "--lr-schedule");
  EXPECT_EQ(c.schedule, "linear");
}

TEST(Config, WordsOfOtherTrainersForStages) {
  RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : fields_of(c)) names.push_back(f.name);
  const auto hint = [&](const char* word) { return base::foreign_word_hint(word, names, base::Spelling::flags); };
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
  EXPECT_EQ(hint("--cpu-offload").find("there is no offload"), 0u);
  EXPECT_EQ(hint("--torch-compile").find("nothing to switch on"), 0u);
  EXPECT_EQ(hint("--context"), "here it is --sequence");
  EXPECT_EQ(hint("--training.global_batch_size").find("here it is --global-batch: "), 0u);
  EXPECT_EQ(hint("--optimizer.lr=0.1"), "here it is --learning-rate");
  EXPECT_EQ(hint("--parallelism.nothing"), "");
}

// What transformers, DeepSpeed and Megatron-LM take, and the flag, or part of the sentence, that answers it.
TEST(Config, ArgumentsOfOtherTrainers) {
  RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : fields_of(c)) names.push_back(f.name);
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
      {"--lora_rank", "there is no LoRA"},
      {"--load_in_4bit", "no quantization"},
      {"--label_smoothing_factor", "neither label smoothing"},
      {"--push_to_hub", "convert-checkpoint"},
      {"--dataloader_pin_memory", "nothing to choose"},
      {"--fp16", "here it is --dtype: --dtype bf16"},
      {"--initial-loss-scale", "--dtype bf16"},
      {"--run_name", "here it is --output: "},
      {"--data_seed", "here it is --seed: "},
      {"--adafactor", "--optimizer is adamw"},
      {"--optim", "here it is --optimizer: adamw or sgd"},
      {"--sgd", "here it is --optimizer: adamw or sgd"},
      {"--sgd-momentum", "here it is --momentum: "},
      {"--wandb_project", "--export tensorboard"},
      {"--deepspeed", "here it is --zero: "},
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
    const auto said = base::foreign_word_hint(theirs, names, base::Spelling::flags);
    EXPECT_NE(said.find(part), std::string::npos) << theirs << ": " << said;
  }
}

// A setting of a run in a model's file is known for what it is, under every name that it has.
// f16 is only stored: a run cannot compute in it, and says so before it reserves or opens anything.
TEST(Config, AWorkingDtypeIsOneThatRunsComputeIn) {
  RunConfig c;
  auto fields = fields_of(c);
  auto& dtype = base::field_named(fields, "dtype", "it");
  for (const char* name : {"fp16", "f16", "float16", "half", "f64"}) {
    try {
      dtype.set(name, "--dtype");
      ADD_FAILURE() << name;
    } catch (const base::UsageError& e) {
      EXPECT_EQ(std::string(e.what()), fmt::format("--dtype {} is not known; use f32, bf16", name));
    }
  }
  dtype.set("bf16", "--dtype");
  EXPECT_EQ(c.dtype, base::DType::bf16);
}

TEST(Config, NoSettingOfARunIsAKeyOfAModel) {
  RunConfig c;
  plan::ModelConfig model;
  plan::ParallelLayout layout;
  std::vector<std::string> keys;
  for (const auto& f : plan::fields_of(model)) keys.push_back(f.name);
  const auto of_plans = plan::fields_of(layout);
  for (const auto& f : fields_of(c)) {
    if (f.name == "lanes" || f.name == "model") continue;  // a key of the model, and the model itself
    for (const auto& name : f.names()) {
      const auto said = base::foreign_word_hint(name, keys, base::Spelling::keys);
      EXPECT_NE(said.find("--" + name + " is a setting of train"), std::string::npos) << name << ": " << said;
      const bool is_of_plans = f.name == "data" || f.name == "device" ||
                               std::any_of(of_plans.begin(), of_plans.end(), [&](auto& g) { return g.name == f.name; });
      EXPECT_EQ(said.find("train and partition-model") != std::string::npos, is_of_plans) << name << ": " << said;
    }
  }
  const auto said = [&](const char* word) { return base::foreign_word_hint(word, keys, base::Spelling::keys); };
  EXPECT_NE(said("batch_size").find("--micro-batch is a setting of train"), std::string::npos) << said("batch_size");
  EXPECT_EQ(said("num_experts"), "here it is experts-count: that is count in the table [experts]");
  EXPECT_EQ(said("experts"), said("num_experts"));
  EXPECT_EQ(said("experts-num"), said("num_experts"));
  EXPECT_EQ(said("moe_router_topk"), "here it is experts-top-k: that is top-k in the table [experts]");
  EXPECT_EQ(said("n_layer"), "here it is layers");
}

// The lists that programs make of traits, compared with lists by hand.
TEST(Traits, AreThoseOfTheSettingsThatHaveThem) {
  RunConfig config;
  const auto named = [&](base::FieldTrait trait) {
    std::set<std::string> names;
    for (const auto& f : fields_of(config))
      if (f.has(trait)) names.insert(f.name);
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(named(base::FieldTrait::per_rank), (Names{"threads", "memory-limit", "progress", "model", "data", "plan"}));
  EXPECT_EQ(named(base::FieldTrait::free_on_resume),
            (Names{"tensor-parallel", "pipeline-parallel", "expert-parallel", "sequence-parallel", "zero", "dtype",
                   "device", "threads", "recompute", "save-every", "keep", "save-throttle"}));
  EXPECT_EQ(named(base::FieldTrait::later_in_plans),
            (Names{"tensor-parallel", "sequence-parallel", "expert-parallel", "expert-ranks-per-node",
                   "expert-overlap-chunks", "expert-capacity-buffer", "pipeline-parallel", "virtual-stages",
                   "partition", "optimizer"}));
  EXPECT_EQ(evaluation_settings(), (Names{"model",
                                          "data",
                                          "plan",
                                          "sequence",
                                          "micro-batch",
                                          "document-mask",
                                          "objective",
                                          "mask-rate",
                                          "mask-words",
                                          "device",
                                          "zero",
                                          "communicator",
                                          "dtype",
                                          "tensor-parallel",
                                          "sequence-parallel",
                                          "expert-parallel",
                                          "expert-ranks-per-node",
                                          "expert-overlap-chunks",
                                          "expert-capacity-buffer",
                                          "pipeline-parallel",
                                          "pipeline-schedule",
                                          "virtual-stages",
                                          "partition",
                                          "gathered-layers",
                                          "threads",
                                          "memory-limit",
                                          "progress",
                                          "hang-timeout",
                                          "collective-delay"}));
}

}  // namespace
}  // namespace trainyard::engine
