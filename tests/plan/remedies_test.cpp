// Tests the remedies for a plan that does not fit its memory: first what fits alone, then what fits together, then what
// comes nearer.
#include "libtrain/base/number_text.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/plan/small_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace trainyard::plan {

namespace {

// The remedies for a plan with `bytes` of memory a rank.
std::string tried(Plan p, std::int64_t bytes, Kernels kernels = Kernels::ours) {
  p.device_memory = bytes;
  predict(p);
  const auto found = memory_problems(p, "device-memory", kernels);
  return found.empty() ? "" : found[0].hint;
}
std::int64_t need_of(Plan p) {
  predict(p);
  return p.memory.total();
}

}  // namespace

TEST(Remedies, MemoryRemediesAreThoseThatFitOrAreSaidNotTo) {
  auto p = small_plan();
  p.micro_batch = 4;
  predict(p);
  p.device_memory = p.memory.total() - 1;
  const auto fits = memory_problems(p)[0].hint;
  EXPECT_NE(fits.find("--micro-batch 1 would need"), std::string::npos) << fits;
  EXPECT_EQ(fits.find("--ranks"), std::string::npos) << fits;  // not a flag of train
  p.model = preset("gpt2"), p.model.vocabulary = 50257, p.model.lanes = 4, p.sequence = 1024;
  predict(p);
  p.device_memory = p.memory.reserve + 1;
  const auto none = memory_problems(p)[0].hint;
  EXPECT_EQ(none.find("a smaller model, or a device with more memory and a higher --device-memory; less memory, but "
                      "not enough: "),
            0u)
      << none;
}

TEST(Remedies, TheSettingThatIsTheLimitIsNamed) {
  auto p = small_plan();
  predict(p);
  p.device_memory = p.memory.total() - 1;
  EXPECT_NE(memory_problems(p)[0].message.find(" but --device-memory is "), std::string::npos);
  EXPECT_NE(memory_problems(p, "memory-limit")[0].message.find(" but --memory-limit is "), std::string::npos);
}

// The reserve is there for every model.
TEST(Remedies, NoModelIsSmallEnoughForALimitBelowTheReserve) {
  auto p = small_plan();
  p.micro_batch = 1, p.threads = 1;
  predict(p);
  const auto reserve = base::size_text(p.memory.reserve) + ", whatever the model";
  const auto begins = [](const std::string& hint, const std::string& with) {
    EXPECT_TRUE(hint.starts_with(with)) << hint;
  };
  begins(tried(p, p.memory.reserve), "a higher --device-memory: the reserve outside the arenas alone is " + reserve);
  p.threads = 4;
  predict(p);
  begins(tried(p, p.memory.reserve), "a higher --device-memory or fewer --threads: the reserve outside the arenas ");
  begins(tried(p, 1), "a higher --device-memory: the reserve outside the arenas alone is ");
  p.device = base::DeviceKind::cuda;
  predict(p);
  begins(tried(p, 1), "a higher --device-memory: the reserve outside the arenas alone is ");
}

// The cheaper remedy comes first, and alone if it is enough.
TEST(Remedies, RecomputationIsTheLeastThatFits) {
  auto p = small_plan();
  p.model = preset("gpt2"), p.model.vocabulary = 50257, p.model.lanes = 1, p.sequence = 1024;
  p.dtype = base::DType::bf16, p.topology = replicas_of(1, 1);
  auto some = p, all = p;
  some.recompute = Recompute::selective, all.recompute = Recompute::layers;
  const auto fits = [](const char* flags, const Plan& plan) {
    return fmt::format("{} would need {} and fits", flags, base::size_text(need_of(plan)));
  };
  const auto ranks = "; 2 ranks would need ";
  EXPECT_TRUE(tried(p, need_of(some)).starts_with(fits("--recompute selective", some) + ranks));
  EXPECT_TRUE(tried(p, need_of(some) - 1).starts_with(fits("--recompute full", all) + ranks));
  EXPECT_TRUE(tried(some, need_of(some) - 1).starts_with(fits("--recompute full", all) + ranks));
  auto quarter = p, half = p;  // more layers in the same form are a remedy, too
  quarter.recompute = Recomputation(0.25, 0);
  EXPECT_TRUE(tried(quarter, need_of(all)).starts_with(fits("--recompute full", all)));
  half.recompute = Recomputation(0, 0.5);
  EXPECT_TRUE(tried(half, need_of(some)).starts_with(fits("--recompute selective", some) + ranks));
  const auto hint = tried(p, 1);
  EXPECT_EQ(hint.find("selective"), std::string::npos) << hint;
  EXPECT_NE(hint.find("--recompute full would need"), std::string::npos) << hint;
  p.topology = replicas_of(2, 1), some = p;
  some.zero = 3, some.recompute = Recompute::selective;
  EXPECT_EQ(tried(p, need_of(some)), fits("--zero 3 --recompute selective", some) + "; none of these alone is enough");
}

TEST(Remedies, TensorRanksAreDoubledUntilTheyFit) {
  auto p = small_plan();
  p.model = preset("llama-8b"), p.model.vocabulary = 128256, p.model.lanes = 8;
  p.topology = replicas_of(64, 1), p.global_batch = 64, p.sequence = 8192;
  p.zero = 3, p.recompute = Recompute::layers, p.dtype = base::DType::bf16;
  auto eight = p, four = p;
  eight.tensor = 8, eight.topology = replicas_of(64, 8), four.tensor = 4, four.topology = replicas_of(64, 4);
  EXPECT_EQ(tried(p, need_of(eight)),
            "--tensor-parallel 8 would need " + base::size_text(need_of(eight)) + " and fits");
  EXPECT_EQ(tried(p, need_of(four)), "--tensor-parallel 4 would need " + base::size_text(need_of(four)) + " and fits");
  const auto hint = tried(p, need_of(eight) / 2);
  EXPECT_EQ(hint.find("--tensor-parallel 4 "), std::string::npos)
      << "of degrees that do not fit the largest is enough: " << hint;
  EXPECT_NE(hint.find("--tensor-parallel 8 would need"), std::string::npos) << hint;
  p.model.lanes = 2;  // so no more than two ranks may divide a layer
  EXPECT_EQ(tried(p, need_of(eight)).find("--tensor-parallel 4"), std::string::npos);
}

TEST(Remedies, WhatIsNotEnoughAloneMayBeTogether) {
  auto p = small_plan();
  p.model = preset("llama-8b"), p.model.vocabulary = 128256, p.model.lanes = 1;
  p.topology = replicas_of(8, 1), p.sequence = 8192;
  auto both = p, alone = p;
  both.zero = 3, both.recompute = Recompute::layers, alone.zero = 3;
  ASSERT_LT(need_of(both), need_of(alone));
  EXPECT_EQ(tried(p, need_of(both)), "--zero 3 --recompute full would need " + base::size_text(need_of(both)) +
                                         " and fits; none of these alone is enough");
  p.model.lanes = 8;
  auto all = p;
  all.zero = 3, all.recompute = Recompute::layers, all.tensor = 2, all.topology = replicas_of(8, 2);
  EXPECT_EQ(tried(p, need_of(all)), "--zero 3 --recompute full --tensor-parallel 2 would need " +
                                        base::size_text(need_of(all)) + " and fits; none of these alone is enough");
}

// Too many stages take ranks from tensor parallelism. The remedy is fewer stages of several tensor-parallel ranks.
TEST(Remedies, StagesMayBecomeTensorRanks) {
  auto p = small_plan();
  p.model = preset("gpt2"), p.model.vocabulary = 257, p.model.lanes = 4;
  p.pipeline = 8, p.topology = replicas_of(8, 1, 8), p.global_batch = 64, p.sequence = 1024;
  p.recompute = Recompute::layers;  // already the most recomputation
  auto two = p, four = p;
  two.tensor = 2, two.pipeline = 4, two.topology = replicas_of(8, 2, 4);
  four.tensor = 4, four.pipeline = 2, four.topology = replicas_of(8, 4, 2);
  ASSERT_LT(need_of(four), need_of(two));
  const auto fits = [](const char* flags, const Plan& plan) {
    return fmt::format("{} would need {} and fits; none of these alone is enough", flags,
                       base::size_text(need_of(plan)));
  };
  EXPECT_EQ(tried(p, need_of(two)), fits("--tensor-parallel 2 --pipeline-parallel 4", two));
  EXPECT_EQ(tried(p, need_of(four)), fits("--tensor-parallel 4 --pipeline-parallel 2", four));
  EXPECT_NE(tried(p, need_of(four) / 2).find("; less memory, but not enough: "), std::string::npos);
  p.partition = "0,2,4,6,7,8,9,10";  // for eight stages only
  EXPECT_EQ(tried(p, need_of(four)).find("--pipeline-parallel"), std::string::npos);
}

// A single change that only this search finds is not reported as a joint one.
TEST(Remedies, FewerStagesMayBeEnough) {
  auto p = small_plan();
  p.model = preset("gpt2"), p.model.vocabulary = 50257, p.model.lanes = 1, p.zero = 3, p.sequence = 8;
  p.pipeline = 8, p.topology = replicas_of(8, 1, 8);
  auto fewer = p;
  fewer.pipeline = 2, fewer.topology = replicas_of(8, 1, 2);
  ASSERT_LT(need_of(fewer), need_of(p));
  const auto hint = tried(p, need_of(fewer));
  EXPECT_NE(hint.find("--pipeline-parallel 2 would need " + base::size_text(need_of(fewer)) + " and fits"),
            std::string::npos)
      << hint;
  EXPECT_EQ(hint.find("none of these alone"), std::string::npos) << hint;
}

// One local accumulation has all micro-batches, so fewer stages, with more replicas, are not legal. What fits is said
// all the same.
TEST(Remedies, DegreesThatAreNotLegalHideNothing) {
  auto p = small_plan();
  p.model = preset("gpt2"), p.model.vocabulary = 50257, p.model.lanes = 1, p.zero = 3, p.sequence = 1024;
  p.dtype = base::DType::bf16;
  p.pipeline = 8, p.topology = replicas_of(8, 1, 8), p.global_batch = 8, p.local_accumulation = 8;
  auto fewer = p, some = p;
  fewer.pipeline = 4, fewer.topology = replicas_of(8, 1, 4);
  ASSERT_FALSE(decision_problems(fewer).empty());
  some.recompute = Recompute::selective;
  EXPECT_EQ(tried(p, need_of(some)),
            "--recompute selective would need " + base::size_text(need_of(some)) + " and fits");
  p.recompute = Recompute::layers, p.gathered_layers = 1;  // so there is no single change
  EXPECT_NE(tried(p, need_of(p) / 2), "");
}

// Heads of 160 are too wide for this program's kernels on a GPU, and not for those of another one.
TEST(Remedies, TheyAreThoseOfTheKernels) {
  auto p = small_plan();
  p.model = preset("gpt2"), p.model.vocabulary = 50304, p.model.lanes = 1, p.model.hidden = 640, p.model.heads = 4;
  p.model.kv_heads = 4, p.model.ffn = 2560;
  p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16, p.sequence = 1024;
  p.topology = replicas_of(4, 1), p.global_batch = 32, p.micro_batch = 8, p.zero = 3, p.recompute = Recompute::layers;
  auto two = p;
  two.tensor = 2, two.topology = replicas_of(4, 2);
  ASSERT_FALSE(decision_problems(p).empty());
  EXPECT_NE(tried(p, need_of(two), Kernels::others)
                .find("--tensor-parallel 2 would need " + base::size_text(need_of(two)) + " and fits"),
            std::string::npos);
}

TEST(Remedies, FewerLayersMayBeGathered) {
  auto p = small_plan();
  p.model = preset("llama-8b"), p.model.vocabulary = 128256, p.model.lanes = 1;
  p.topology = replicas_of(64, 1), p.global_batch = 256, p.sequence = 8192;
  p.zero = 3, p.recompute = Recompute::layers, p.dtype = base::DType::bf16;
  auto one = p;
  one.gathered_layers = 1;
  ASSERT_LT(need_of(one), need_of(p));
  EXPECT_TRUE(tried(p, need_of(one))
                  .starts_with("--gathered-layers 1 would need " + base::size_text(need_of(one)) + " and fits"));
  p.zero = 2;
  EXPECT_EQ(tried(p, need_of(one)), "--zero 3 --gathered-layers 1 would need " + base::size_text(need_of(one)) +
                                        " and fits; none of these alone is enough");
  p.zero = 3, p.micro_batch = 4;
  EXPECT_EQ(tried(p, need_of(one)), "--micro-batch 1 --gathered-layers 1 would need " + base::size_text(need_of(one)) +
                                        " and fits; none of these alone is enough");
}

}  // namespace trainyard::plan
