// Where a step's time goes: every kernel of every family has its part, and the parts add up to the step. Products have
// the shapes and the work of the model, and profiling changes no bit of a run.
#include "libtrain/engine/step_profile.h"

#include "kernels/gemm/gemm.h"
#include "libtrain/engine/setup.h"

#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

struct Line {
  double ms = 0, calls = 0, gflops = 0;
};
// The lines of one table, by their first column of 30 characters.
std::map<std::string, Line> table(const std::string& text, const std::string& title) {
  std::map<std::string, Line> out;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    if (line.empty()) inside = false;
    if (inside) {
      Line l;
      auto name = line.substr(0, 30);
      name.resize(name.find_last_not_of(' ') + 1);
      l.ms = std::stod(line.substr(30, 10));
      if (line.size() >= 56 && line[55] != ' ') l.calls = std::stod(line.substr(49, 7));
      if (line.size() >= 65 && line[64] != ' ') l.gflops = std::stod(line.substr(56, 9));
      out[name] = l;
    }
    if (line.starts_with(title)) inside = true;
  }
  return out;
}

std::string profile_of(SmallRun& runs, engine::RunConfig c, const ParallelLayout& layout) {
  c.profile_step = true;
  c.steps = 3;
  c.global_batch = 4;
  return runs.run(c, layout).step_profile;
}

void expect_whole(const std::string& text) {
  const auto parts = table(text, "part ");
  ASSERT_TRUE(parts.contains("step")) << text;
  EXPECT_FALSE(parts.contains("other kernels")) << text;
  EXPECT_TRUE(parts.contains("products") && parts.contains("optimizer")) << text;
  double sum = 0;
  for (const auto& [name, line] : parts)
    if (name != "step") sum += line.ms;
  EXPECT_NEAR(sum, parts.at("step").ms, 0.01 * static_cast<double>(parts.size())) << text;
  double listed = 0;
  for (const char* title : {"product, rows", "other kernel"})
    for (const auto& [name, line] : table(text, title)) listed += line.ms;
  double kernels = 0;
  for (const auto& [name, line] : parts)
    if (name != "step" && name != "between kernels" && name != "waiting for other ranks") kernels += line.ms;
  EXPECT_NEAR(listed, kernels, 0.5) << text;
}

TEST(StepProfile, EveryKernelOfEveryFamilyHasItsPart) {
  SmallRun runs;
  const std::map<std::string, std::string> models{
      {"gpt", runs.gpt()},
      {"llama", runs.llama()},
      {"experts", runs.model("profile-experts",
                             "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\n"
                             "experts-count = 4\n")},
      {"bert", runs.model("profile-bert",
                          "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                          "\n[attention]\ncausal = false\n")},
  };
  for (const auto& [name, model] : models) {
    SCOPED_TRACE(name);
    auto c = runs.config("family-" + name);
    c.model = model;
    expect_whole(profile_of(runs, c, {1, 0, 2}));
  }
}

TEST(StepProfile, EveryCutAddsUp) {
  SmallRun runs;
  ParallelLayout zero3{2, 3, 1}, tensor{2, 0, 1}, stages{2, 0, 1}, again{1, 0, 1};
  tensor.tensor = 2;
  stages.pipeline = 2;
  again.recompute = "full", again.dtype = "bf16";
  int n = 0;
  for (const auto& layout : {zero3, tensor, stages, again}) {
    SCOPED_TRACE(n);
    const auto text = profile_of(runs, runs.config(fmt::format("cut-{}", n++)), layout);
    expect_whole(text);
    EXPECT_EQ(text.find("waiting for other ranks") != std::string::npos, layout.ranks > 1) << text;
    EXPECT_EQ(text.find("on rank 0") != std::string::npos, layout.ranks > 1) << text;
  }
}

// A step has four micro-batches of one sequence of 32 tokens. The model has 3 layers of 32 with an ffn of 64.
TEST(StepProfile, ProductsHaveTheShapesOfTheModel) {
  SmallRun runs;
  auto c = runs.config("shapes");
  const auto text = profile_of(runs, c, {1, 0, 1});
  const auto shapes = table(text, "product, rows");
  // Products of q, k and v together, and of their weight's gradient; of up; of down; each for 4 micro-batches and 3
  // layers. Some shapes belong to several products.
  EXPECT_EQ(shapes.at("32 x 96 over 32").calls, 12) << text;
  EXPECT_EQ(shapes.at("96 x 32 over 32").calls, 12) << text;
  EXPECT_EQ(shapes.at("32 x 64 over 32").calls, 36) << text;       // up forward; down's input and weight
  EXPECT_EQ(shapes.at("64 x 32 over 32").calls, 12) << text;       // up's weight
  EXPECT_EQ(shapes.at("32 x 32 over 64").calls, 12 + 12) << text;  // down forward; up's input
  const auto one = shapes.at("32 x 96 over 32");
  EXPECT_NEAR(one.gflops, 12 * 2.0 * 32 * 96 * 32 / (one.ms * 1e6), 0.2 * one.gflops + 0.1) << text;
}

TEST(StepProfile, ChangesNoBitAndTellsTheFirstStepApart) {
  SmallRun runs;
  const ParallelLayout layout{2, 2, 2};
  auto plain = runs.config("plain"), profiled = runs.config("profiled"), single = runs.config("single");
  plain.steps = profiled.steps = 4;
  profiled.profile_step = single.profile_step = true;
  single.steps = 1;
  const auto a = runs.run(plain, layout), b = runs.run(profiled, layout);
  EXPECT_EQ(runs.bits(plain, a), runs.bits(profiled, b));
  EXPECT_TRUE(a.step_profile.empty());
  EXPECT_TRUE(b.step_profile.starts_with("where steps 2 to 4 went on rank 0: 2 threads, ")) << b.step_profile;
  EXPECT_NE(b.step_profile.find("\nleft out: the first step, "), std::string::npos);
  EXPECT_NE(b.step_profile.find("\npage faults, where memory is touched first: "), std::string::npos);
  const auto c = runs.run(single, {1, 0, 1});
  EXPECT_TRUE(c.step_profile.starts_with("where step 1 went: 1 thread, ")) << c.step_profile;
  EXPECT_EQ(c.step_profile.find("left out"), std::string::npos);
  // No step is left to do.
  EXPECT_TRUE(runs.run(single, {1, 0, 1}).step_profile.empty());
}

// A stop request abandons the step under way: the profile then covers only the steps before it.
TEST(StepProfile, AnAbandonedStepIsAsIfItHadNotBegun) {
  engine::StepProfile profile(1);
  tensor::Arena scratch(tensor::Category::workspace, 1 << 20);
  const auto exec = tensor::Exec::caller(&scratch, 1);
  std::vector<float> x(64 * 64, 1), y(64 * 64), z(64 * 64);
  const auto compute = [&] {
    const engine::StepProfile::Part part(profile);
    const auto view = [](std::vector<float>& v) { return base::View::of(v.data(), {64, 64}); };
    kernels::gemm(*exec, {.a = view(x),
                          .b = view(y),
                          .trans_a = kernels::Transpose::no,
                          .trans_b = kernels::Transpose::no,
                          .c = view(z)});
  };
  const engine::StepProfile::Peaks peaks{1e11, 1e11};
  profile.begin_step(1);
  compute();
  profile.abandon_step();
  EXPECT_TRUE(profile.text(0, 1, "any", peaks).empty());
  for (const int step : {1, 2, 3}) {
    profile.begin_step(step);
    compute();
  }
  const auto before = profile.text(0, 1, "any", peaks);
  for (const int abandoned : {4, 4}) {
    profile.begin_step(abandoned);
    compute(), compute();
    profile.abandon_step();
  }
  EXPECT_EQ(profile.text(0, 1, "any", peaks), before);
  EXPECT_TRUE(before.starts_with("where steps 2 to 3 went: 1 thread, any\n")) << before;
}

// No kernel is faster than multiply-adds in registers. If one seems faster, the peak was measured too slow.
TEST(StepProfile, SaysThatItsPeakIsNone) {
  engine::StepProfile profile(1);
  tensor::Arena scratch(tensor::Category::workspace, 1 << 20);
  const auto exec = tensor::Exec::caller(&scratch, 1);
  std::vector<float> x(64 * 64, 1), y(64 * 64);
  profile.begin_step(1);
  {
    const engine::StepProfile::Part part(profile);
    const auto view = [](std::vector<float>& v) { return base::View::of(v.data(), {64, 64}); };
    kernels::gemm(*exec, {.a = view(x),
                          .b = view(x),
                          .trans_a = kernels::Transpose::no,
                          .trans_b = kernels::Transpose::no,
                          .c = view(y)});
  }
  const auto said = [&](double peak) {
    return profile.text(0, 1, "any", {peak, peak}).find("\nsomething was faster than that: ") != std::string::npos;
  };
  EXPECT_TRUE(said(1));
  EXPECT_FALSE(said(1e18));
}

// The first step is reported apart. Here the step after it is abandoned.
TEST(StepProfile, TheFirstStepComesBackWhereTheSecondIsAbandoned) {
  engine::StepProfile profile(1);
  const engine::StepProfile::Peaks peaks{1e11, 1e11};
  profile.begin_step(7);
  { const engine::StepProfile::Part part(profile); }
  const auto before = profile.text(0, 1, "any", peaks);
  profile.begin_step(8);
  { const engine::StepProfile::Part part(profile); }
  profile.abandon_step();
  EXPECT_EQ(profile.text(0, 1, "any", peaks), before);
  EXPECT_TRUE(before.starts_with("where step 7 went: ")) << before;
}

// The gate of experts is an f32 product, whatever the model's dtype.
TEST(StepProfile, ProductsOfBf16HaveRowsOfTheirOwn) {
  SmallRun runs;
  auto c = runs.config("types");
  c.model = runs.model("profile-types",
                       "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\n"
                       "experts-count = 4\n");
  ParallelLayout layout;
  layout.dtype = "bf16";
  const auto text = profile_of(runs, c, layout);
  const auto shapes = table(text, "product, rows");
  EXPECT_TRUE(shapes.contains("32 x 4 over 32")) << text;
  EXPECT_TRUE(shapes.contains("32 x 96 over 32, bf16")) << text;
  EXPECT_FALSE(shapes.contains("32 x 96 over 32")) << text;
}

// Validations and checkpoints are not part of a step, so their kernels are not counted.
TEST(StepProfile, LeavesOutValidationsAndCheckpoints) {
  SmallRun runs;
  auto plain = runs.config("without"), more = runs.config("with");
  more.validate_every = 1, more.validation_sequences = 8, more.save_every = 1;
  const auto calls = [&](const engine::RunConfig& c) {
    return table(profile_of(runs, c, {1, 0, 1}), "part ").at("products").calls;
  };
  EXPECT_EQ(calls(plain), calls(more));
}

TEST(StepProfile, IsNotOfAGpu) {
  SmallRun runs;
  auto c = runs.config("gpu");
  c.profile_step = true;
  c.device = "cuda";
  try {
    engine::make_setup(c, 1, 1);
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("--profile-step times kernels on a CPU"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace trainyard
