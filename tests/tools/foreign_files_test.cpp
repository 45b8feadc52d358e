// What files and folders of other trainers are recognized as.
#include "tools/common/foreign_files.h"

#include "libtrain/base/error.h"
#include "libtrain/base/toml_file.h"
#include "tests/scratch.h"
#include "tools/common/foreign_words.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace trainyard::tools {
namespace foreign_files_test {

// The message and the hint for settings with this text.
std::string refusal(const std::string& text) {
  advise_on_other_tools();
  const testing::Scratch folder;
  testing::spit(folder.path + "/settings", text);
  try {
    base::read_toml_file(folder.path + "/settings");
  } catch (const base::InputError& e) {
    return std::string(e.what()) + "\n" + e.hint();
  }
  return "";
}

void expect_flags(const std::string& text, const std::string& flags) {
  const auto said = refusal(text);
  EXPECT_NE(said.find("looks like DeepSpeed's JSON, and TOML is read\nthe same with flags: train " + flags),
            std::string::npos)
      << text << "\n"
      << said;
}

void expect_remark(const std::string& text, const std::string& part) {
  const auto said = refusal(text);
  EXPECT_NE(said.find(part), std::string::npos) << text << "\n" << said;
}

TEST(ForeignFiles, ADeepSpeedFileGetsTheFlagsOfItsKeys) {
  expect_flags(R"( {"zero_optimization": {"stage": 2}, "train_batch_size": 32, "bf16": {"enabled": true}})",
               "--global-batch 32 --zero 2 --dtype bf16");
  expect_flags(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 0.5})",
               "--global-batch N --micro-batch 4 --clip 0.5");
  expect_flags(R"({"bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params":
                   {"lr": 0.25, "betas": [0.5, 0.75], "eps": 0.125, "weight_decay": 0}}})",
               "--dtype bf16 --learning-rate 0.25 --beta1 0.5 --beta2 0.75 --epsilon 0.125 --weight-decay 0");
  expect_flags(
      R"({"bf16": {"enabled": true}, "optimizer": {"type": "SGD", "params":
          {"lr": 0.25, "momentum": 0.5, "nesterov": true}}})",
      "--dtype bf16 --optimizer sgd --learning-rate 0.25 --momentum 0.5 --nesterov on");
  expect_flags(R"({"fp16": {"enabled": true}})", "--dtype fp16 --loss-scale dynamic:65536,1000,2");
  expect_flags(R"({"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500,
                   "hysteresis": 3}})",
               "--dtype fp16 --loss-scale dynamic:4096,500,3");
  expect_flags(R"({"fp16": {"enabled": true, "loss_scale": 128}})", "--dtype fp16 --loss-scale static:128");
  expect_flags(R"({"fp16": {"enabled": true, "loss_scale": 1000}})", "--dtype fp16 --loss-scale static:512");
  expect_remark(R"({"fp16": {"enabled": true, "loss_scale": 1000}})",
                "a power of two here, at most 2^32: 512 for 1000");
  expect_remark(R"({"fp16": {"enabled": true, "initial_scale_power": 40}})", "initial_scale_power 40");
  // DeepSpeed's Adam is AdamW, unless it says otherwise.
  expect_flags(R"({"bf16": {"enabled": true}, "optimizer": {"type": "Adam", "params": {"lr": 0.25}}})",
               "--dtype bf16 --learning-rate 0.25");
  expect_flags(
      R"({"bf16": {"enabled": true}, "optimizer": {"type": "adam", "params": {"lr": 0.25, "adam_w_mode": false}}})",
      "--dtype bf16 --optimizer adam --learning-rate 0.25");
  expect_flags(R"({"bf16": {"enabled": true}, "optimizer": {"type": "Lion", "params": {"betas": [0.5, 0.75]}}})",
               "--dtype bf16 --optimizer lion --beta1 0.5 --beta2 0.75");
  expect_flags(R"({"bf16": {"enabled": true}, "optimizer": {"type": "Lamb", "params": {"lr": 0.25, "eps": 0.5}}})",
               "--dtype bf16 --optimizer lamb --learning-rate 0.25 --epsilon 0.5");
  expect_flags(R"({"fp16": {"enabled": false}, "scheduler": {"type": "WarmupCosineLR", "params":
                   {"warmup_num_steps": 5, "warmup_min_lr": 0, "total_num_steps": 50}}})",
               "--lr-schedule cosine --warmup-steps 5 --start-learning-rate 0 --steps 50");
  expect_flags(R"({"bf16": {}, "scheduler": {"type": "WarmupCosineLR", "params":
                   {"total_num_steps": 50, "warmup_min_ratio": 0.01, "cos_min_ratio": 0.1, "warmup_num_steps": 5}}})",
               "--lr-schedule cosine --warmup-steps 5 --start-learning-rate 1% --final-learning-rate 10% --steps 50");
  expect_flags(R"({"bf16": {}, "scheduler": {"type": "OneCycle", "params":
                   {"cycle_first_step_size": 100, "cycle_min_lr": 0.25, "cycle_max_lr": 0.5}}})",
               "--lr-schedule linear --warmup-steps 100 --decay-steps 100 --start-learning-rate 0.25 "
               "--final-learning-rate 0.25 --learning-rate 0.5");
  expect_flags(R"({"bf16": {}, "optimizer": {"type": "SGD", "params": {"lr": 0.125}}, "scheduler": {"type": "OneCycle",
                   "params": {"cycle_max_lr": 0.5}}})",
               "--optimizer sgd --lr-schedule linear --learning-rate 0.5");
  expect_flags(R"({"activation_checkpointing": {}, "wall_clock_breakdown": true, "pipeline": {"stages": 2}})",
               "--pipeline-parallel 2 --recompute full --profile-step");
  EXPECT_EQ(refusal(R"({"train_batch_size": 8})").find("--zero"), std::string::npos);
  expect_flags(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {}})",
               "--global-batch N --micro-batch 4; N is 4 x 2 x the data-parallel ranks");
}

TEST(ForeignFiles, ArgumentsOfTransformersTrainer) {
  const auto said = refusal(R"({"output_dir": "out", "learning_rate": 5e-05, "num_train_epochs": 3, "max_steps": -1,
                                "per_device_train_batch_size": 8, "bf16": true, "warmup_ratio": 0.1})");
  EXPECT_NE(
      said.find(
          "looks like arguments of transformers' Trainer, and TOML is read\nthe same with flags: train "
          "--output out --learning-rate 5e-05 --micro-batch 8 --warmup-steps 10% --dtype bf16; --global-batch is"),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("an epoch has"), std::string::npos) << said;
  const auto schedule = [](const char* keys) {
    const auto text = refusal(fmt::format(R"({{"output_dir": "out", "learning_rate": 5e-05, {}}})", keys));
    const std::string before = "--learning-rate 5e-05 ";
    const auto from = text.find(before), to = text.find(';', from);
    return from == std::string::npos ? text : text.substr(from + before.size(), to - from - before.size());
  };
  EXPECT_EQ(schedule(R"("lr_scheduler_type": "cosine")"), "--lr-schedule cosine");
  EXPECT_EQ(schedule(R"("lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2, "lr_end": 1e-7})"),
            "--lr-schedule polynomial:2 --final-learning-rate 1e-07");
  EXPECT_EQ(schedule(R"("lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.1})"),
            "--lr-schedule cosine --final-learning-rate 10%");
  EXPECT_EQ(schedule(R"("lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": {"num_decay_steps": 7})"),
            "--lr-schedule wsd --decay-steps 7");
  EXPECT_EQ(schedule(R"("lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": null)"),
            "--lr-schedule cosine-restarts:STEPS_OF_A_CYCLE");
}

TEST(ForeignFiles, OptimizersOfTransformersTrainer) {
  const auto said = [](const char* optimizer) {
    return refusal(fmt::format(R"({{"output_dir": "out", "learning_rate": 5e-05, "optim": "{}"}})", optimizer));
  };
  for (const char* adamw : {"adamw_torch", "adamw_torch_fused"})
    EXPECT_EQ(said(adamw).find("--optimizer"), std::string::npos) << said(adamw);
  EXPECT_NE(said("sgd").find("--learning-rate 5e-05 --optimizer sgd --momentum 0;"), std::string::npos) << said("sgd");
  EXPECT_NE(said("lion_32bit").find("--learning-rate 5e-05 --optimizer lion;"), std::string::npos)
      << said("lion_32bit");
  EXPECT_NE(said("adafactor").find("--learning-rate 5e-05 --optimizer adafactor --scale-parameter off;"),
            std::string::npos)
      << said("adafactor");
  EXPECT_NE(said("galore_adamw").find("; --optimizer is adafactor, adam, adamw, lamb, lion, muon or sgd"),
            std::string::npos)
      << said("galore_adamw");
}

TEST(ForeignFiles, KeysWithoutAFlagGetASentence) {
  expect_remark(R"({"train_batch_size": 8, "nonsense": 3, "moe": {}})", "not translated: nonsense, moe");
  expect_remark(R"({"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}})",
                "linear, not logarithmic");
  expect_remark(R"({"gradient_accumulation_steps": 4})", "gradient_accumulation_steps follows");
  expect_remark(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})",
                "--offload parameters=host;");
  expect_remark(R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})", "--offload optimizer=host;");
  expect_remark(R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})", "where ranks compute on the CPU");
  expect_remark(
      R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}, "offload_param": {"device":
                "nvme"}}})",
      "--offload optimizer=disk,parameters=disk --offload-dir FOLDER");
  expect_remark(R"({"zero_optimization": {"stage": 3, "overlap_comm": true}})", "need no setting");
  expect_remark(R"({"bf16": {"enabled": true}, "optimizer": {"type": "Adagrad"}})",
                "--optimizer is adafactor, adam, adamw, lamb, lion, muon or sgd");
  expect_remark(R"({"bf16": {"enabled": true}, "optimizer": {"type": "FusedLamb", "params": {"max_coeff": 10}}})",
                "the trust ratio of --optimizer lamb has no bounds");
  EXPECT_EQ(refusal(R"({"zero_optimization": {"offload_param": {"device": "none"}}})").find("offload"),
            std::string::npos);
  for (const char* odd :
       {R"({"zero_optimization": 3})", R"({"bf16": true})", R"({"fp16": null})", R"({"optimizer": [], "bf16": {}})",
        R"({"scheduler": {"params": 1}, "bf16": {}})", R"({"bf16": {}, "optimizer": {"params": {"betas": [1]}}})"})
    expect_remark(odd, "train has flags for what it can do");
}

TEST(ForeignFiles, OtherJsonIsNoTomlEither) {
  expect_remark(R"({"format": "trainyard.plan/1"})", "is a plan, where TOML is read\ntrain --plan ");
  expect_remark(R"({"model_type": "llama"})", "looks like the config.json of a Hugging Face model");
  for (const char* text : {R"({"a": 1})", "{", "{]", "{\"a\": 1, \"a\": 2}"})
    expect_remark(text, "begins with '{' like JSON, and TOML is read\none `key = value` a line");
  EXPECT_EQ(refusal("a = {}\n"), "");
}

TEST(ForeignFiles, FoldersOfHuggingFace) {
  const testing::Scratch folder;
  const auto& path = folder.path;
  EXPECT_EQ(hugging_face_hint(path), "");
  testing::spit(path + "/config.json", "{}");
  EXPECT_EQ(hugging_face_hint(path), "");
  EXPECT_EQ(pickled_weights_hint(path), "");
  testing::spit(path + "/pytorch_model.bin", "");
  EXPECT_NE(hugging_face_hint(path).find("M.from_pretrained('" + path + "'"), std::string::npos);
  EXPECT_NE(pickled_weights_hint(path + "/pytorch_model.bin").find("'" + path + "'"), std::string::npos);
  EXPECT_EQ(pickled_weights_hint(path + "/config.json"), "");
  testing::spit(path + "/model.safetensors", "");
  EXPECT_NE(hugging_face_hint(path).find("convert-checkpoint " + path + " NEW --from safetensors"), std::string::npos);
  std::filesystem::rename(path + "/model.safetensors", path + "/model.safetensors.index.json");
  EXPECT_NE(hugging_face_hint(path).find("--init-from NEW"), std::string::npos);
}

}  // namespace foreign_files_test
}  // namespace trainyard::tools
