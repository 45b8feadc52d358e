// Settings of a run: their spellings and traits.
#include "libtrain/engine/config.h"
#include "libtrain/base/error.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/engine/unread_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

// f64 is only for checks: a run cannot compute in it, and says so before it reserves or opens anything.
TEST(Config, AWorkingDtypeIsOneThatRunsComputeIn) {
  RunConfig c;
  auto fields = fields_of(c);
  auto& dtype = base::field_named(fields, "dtype", "it");
  for (const char* name : {"fp8", "f64"}) {
    try {
      dtype.set(name, "--dtype");
      ADD_FAILURE() << name;
    } catch (const base::UsageError& e) {
      EXPECT_EQ(std::string(e.what()), fmt::format("--dtype {} is not known; use f32, bf16, f16", name));
    }
  }
  dtype.set("bf16", "--dtype");
  EXPECT_EQ(c.dtype, base::DType::bf16);
  for (const char* name : {"fp16", "f16", "float16", "half"}) {
    c.dtype = base::DType::f32;
    dtype.set(name, "--dtype");
    EXPECT_EQ(c.dtype, base::DType::f16);
    EXPECT_EQ(dtype.get(), "f16");
  }
  for (const auto& [name, ours] : {std::pair{"bfloat16", "bf16"}, {"float32", "f32"}, {"fp32", "f32"}}) {
    dtype.set(name, "--dtype");
    EXPECT_EQ(dtype.get(), ours);
  }
}

TEST(Config, AmountsAreNumbersInRange) {
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0})
    for (const auto member : {&RunConfig::start_learning_rate, &RunConfig::final_learning_rate,
                              &RunConfig::warmup_steps, &RunConfig::decay_steps})
      for (const auto unit : {base::Amount::Unit::own, base::Amount::Unit::percent, base::Amount::Unit::samples}) {
        RunConfig c;
        c.*member = {bad, unit};
        base::Complaints complaints;
        base::check_fields(fields_of(c), complaints);
        EXPECT_EQ(complaints.list().size(), 1u) << bad;
      }
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
  EXPECT_EQ(named(base::FieldTrait::per_rank),
            (Names{"threads", "offload-dir", "memory-limit", "host-memory", "progress", "model", "data", "plan"}));
  EXPECT_EQ(named(base::FieldTrait::free_on_resume), (Names{"tensor-parallel",
                                                            "pipeline-parallel",
                                                            "expert-parallel",
                                                            "sequence-parallel",
                                                            "zero",
                                                            "zero-group",
                                                            "reduction-ranks-per-node",
                                                            "dtype",
                                                            "loss-scale",
                                                            "master",
                                                            "moment-dtype",
                                                            "gradient-sums",
                                                            "offload",
                                                            "device",
                                                            "threads",
                                                            "recompute",
                                                            "accumulation-order",
                                                            "save-every",
                                                            "keep",
                                                            "save-throttle",
                                                            "max-epochs"}));
  EXPECT_EQ(named(base::FieldTrait::identity),
            (Names{"global-batch",  "micro-batch",     "sequence",      "source-sequence",     "local-accumulation",
                   "reduction",     "steps",           "seed",          "document-mask",       "answers-only",
                   "objective",     "mask-rate",       "mask-span",     "mask-words",          "alternate-sets",
                   "ema",           "label-smoothing", "learning-rate", "start-learning-rate", "final-learning-rate",
                   "lr-schedule",   "warmup-steps",    "decay-steps",   "decay-embeddings",    "clip",
                   "skip-outliers", "group",           "layer-decay"}));
  EXPECT_EQ(named(base::FieldTrait::of_checkpoint),
            (Names{"model", "data", "sequence", "source-sequence", "micro-batch", "document-mask", "dtype", "objective",
                   "mask-rate", "mask-span", "mask-words", "answers-only"}));
  EXPECT_EQ(named(base::FieldTrait::later_in_plans), (Names{"tensor-parallel",
                                                            "sequence-parallel",
                                                            "expert-parallel",
                                                            "expert-ranks-per-node",
                                                            "expert-overlap-chunks",
                                                            "expert-capacity-buffer",
                                                            "pipeline-parallel",
                                                            "virtual-stages",
                                                            "partition",
                                                            "optimizer",
                                                            "moment-dtype",
                                                            "ema",
                                                            "label-smoothing",
                                                            "master",
                                                            "gradient-sums",
                                                            "source-sequence",
                                                            "offload",
                                                            "accumulation-order",
                                                            "zero-group",
                                                            "reduction-ranks-per-node"}));
  EXPECT_EQ(named(base::FieldTrait::divides_ranks),
            (Names{"tensor-parallel", "expert-parallel", "expert-ranks-per-node", "pipeline-parallel", "zero-group",
                   "reduction-ranks-per-node"}));
  EXPECT_EQ(named(base::FieldTrait::of_held_experts),
            (Names{"expert-ranks-per-node", "expert-overlap-chunks", "expert-capacity-buffer"}));
  EXPECT_EQ(evaluation_settings(), (Names{"model",
                                          "data",
                                          "plan",
                                          "sequence",
                                          "source-sequence",
                                          "micro-batch",
                                          "document-mask",
                                          "answers-only",
                                          "objective",
                                          "mask-rate",
                                          "mask-span",
                                          "mask-words",
                                          "device",
                                          "zero",
                                          "zero-group",
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

TEST(UnreadSettings, AreThoseOfNoUseHere) {
  const auto of = [](const char* folders, const char* host, const char* offload, base::DeviceKind device) {
    RunConfig c;
    c.offload_dir = folders, c.host_memory = host, c.offload_auto = offload == std::string("auto");
    plan::Plan p;
    p.device = device;
    if (!c.offload_auto) p.offload = plan::offload_of_text(offload, "test");
    std::set<std::string> names;
    for (const auto& each : unread_settings(c, p)) {
      names.insert(each.name);
      EXPECT_NE(each.problem.hint.find("leave --" + each.name + " out"), std::string::npos);
    }
    return names;
  };
  using Names = std::set<std::string>;
  constexpr auto cpu = base::DeviceKind::cpu, cuda = base::DeviceKind::cuda;
  EXPECT_EQ(of("", "", "none", cpu), Names{});
  EXPECT_EQ(of("", "1GB", "none", cpu), Names{"host-memory"});
  EXPECT_EQ(of("", "1GB", "none", cuda), Names{}) << "a limit of what a GPU's rank has on its host";
  EXPECT_EQ(of("a", "", "none", cpu), Names{"offload-dir"});
  EXPECT_EQ(of("a", "", "optimizer=host", cuda), Names{"offload-dir"});
  EXPECT_EQ(of("a", "", "activations=disk:0.1", cpu), Names{});
  EXPECT_EQ(of("a", "1GB", "auto", cpu), Names{"host-memory"}) << "auto may choose nothing at all";
}

TEST(UnreadSettings, OfTheCommandLineAreRefusedAndOthersSaid) {
  RunConfig c;
  c.offload_dir = "a", c.host_memory = "1GB";
  const plan::Plan p;
  ::testing::internal::CaptureStderr();
  EXPECT_NO_THROW(refuse_unread_flags(c, p));
  warn_of_unread_settings(c, p);
  const auto both = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(both.find("--host-memory 1GB limits nothing"), std::string::npos) << both;
  EXPECT_NE(both.find("--offload-dir a stays empty: --offload none has nothing on disk"), std::string::npos) << both;
  c.from_flags = {"steps", "host-memory"};
  try {
    refuse_unread_flags(c, p);
    FAIL() << "a limit of nothing";
  } catch (const base::UsageError& e) {
    EXPECT_EQ(std::string(e.what()).find("--host-memory 1GB limits nothing"), 0u) << e.what();
    EXPECT_EQ(e.hint(), "--memory-limit 1GB, or leave --host-memory out");
  }
  ::testing::internal::CaptureStderr();
  warn_of_unread_settings(c, p);
  const auto one = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(one.find("--host-memory"), std::string::npos) << one;
  EXPECT_NE(one.find("--offload-dir a stays empty"), std::string::npos) << one;
}

// A search decides what nothing gives, and never what changes results. That is no setting of the printed file.
TEST(Config, WhatEachStartSearchesIsPrintedSo) {
  RunConfig c;
  c.plan = "auto", c.machine = "here.json", c.from_plan.open.zero = true;
  auto fields = fields_of(c);
  base::field_named(fields, "pipeline-parallel", "").source = base::from_flag;
  const auto text = print_config(fields, c);
  EXPECT_NE(text.find("# tensor-parallel: each start searches (plan = auto, machine = here.json)\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("# zero: each start searches"), std::string::npos) << text;  // it is said above
  for (const auto& [name, kept] :
       {std::pair("tensor-parallel", false), std::pair("expert-parallel", false), std::pair("zero", false),
        std::pair("pipeline-parallel", true), std::pair("micro-batch", true), std::pair("offload", true)})
    EXPECT_EQ(text.find("\n" + std::string(name) + " =") != std::string::npos, kept) << name << ": " << text;
  c.machine.clear();
  EXPECT_NE(print_config(fields_of(c), c).find("\ntensor-parallel ="), std::string::npos);
}

}  // namespace
}  // namespace trainyard::engine
