// Runs on a GPU whose states lie on the host or on disk: the bits of a run on the device, predicted memory and copies,
// resumes from one place to the other, and a device that is too small without.
#include "libtrain/base/error.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/setup.h"
#include "libtrain/tensor/gpu.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/gpu_main.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig tiny(SmallRun& runs, const std::string& output, const std::string& model) {
  auto c = runs.config(output);
  c.model = model;
  c.device = "cuda";
  c.steps = 4;
  c.global_batch = 4, c.micro_batch = 1;
  c.learning_rate = 0.01, c.weight_decay = 0.1;
  c.validate_every = 2, c.validation_sequences = 2;
  c.offload_dir = runs.folder().string();
  return c;
}

std::string gpt(SmallRun& runs) {
  return runs.model("gpu-gpt",
                    "layers = 3\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 8\n"
                    "dropout-ffn-residual = 0.1\n");
}
std::string experts(SmallRun& runs) {
  return runs.model("gpu-experts",
                    "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 8\n"
                    "[experts]\ncount = 4\nevery = 2\ntop-k = 2\nscore = \"sigmoid\"\nbias-rate = 0.05\n"
                    "capacity-factor = \"none\"\n");
}

plan::Offload offload(const char* text) { return plan::offload_of_text(text, "test"); }

void expect_the_bits(SmallRun& runs, const std::string& model, const char* dtype,
                     const std::vector<std::pair<ParallelLayout, const char*>>& cases) {
  const auto on_device = tiny(runs, fmt::format("on-device-{}-{}", dtype, model.size()), model);
  std::map<std::string, std::pair<engine::RunConfig, std::string>> in_memory;  // by the dtype of sums
  for (const auto& each : cases) {
    const auto& sums = each.first.sums;
    if (in_memory.contains(sums)) continue;
    auto c = on_device;
    c.output += "-" + sums;
    ParallelLayout alone{1, 0, 1, dtype};
    alone.sums = sums;
    in_memory[sums] = {c, runs.bits(c, runs.run(c, alone))};
  }
  if (in_memory.size() > 1) {
    EXPECT_NE(in_memory.at("f32").second, in_memory.at("bf16").second) << "no sum was rounded";
  }
  const auto validation = [](const engine::RunConfig& c) {
    std::vector<double> out;
    for (const auto& line : SmallRun::metrics(c)) out.push_back(line.value("validation_loss", 0.0));
    return out;
  };
  int number = 0;
  for (auto [layout, text] : cases) {
    layout.dtype = dtype;
    auto c = on_device;
    c.output += fmt::format("-{}", number++), c.offload = offload(text);
    const auto where =
        fmt::format("{}, {} ranks, ZeRO {}, {}, sums in {}", text, layout.ranks, layout.zero, dtype, layout.sums);
    const auto& [there, expected] = in_memory.at(layout.sums);
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << where;
    EXPECT_EQ(validation(c), validation(there)) << where;
    testing::expect_no_difference(runs.reports(), where);
    for (const auto& report : runs.reports())
      EXPECT_NE(report.find("to the host in steps"), std::string::npos) << where;
  }
}

ParallelLayout breadth_first(int ranks = 1) {
  ParallelLayout layout{ranks, 3, 1, "f32", "full"};
  layout.breadth_first = true;
  return layout;
}
ParallelLayout stages(const char* recompute) {
  ParallelLayout layout{4, 1, 1, "f32", recompute};
  layout.pipeline = 2;
  return layout;
}
ParallelLayout rounded(ParallelLayout layout) {
  layout.sums = "bf16";
  return layout;
}

// Half of the places are tried with the one dtype, half with the other.
void expect_the_bits_of_the_device(const char* dtype, const std::vector<std::pair<ParallelLayout, const char*>>& more) {
  SmallRun runs;
  std::vector<std::pair<ParallelLayout, const char*>> all = {{{2, 1, 1}, "optimizer=host:0.5"},
                                                             {{3, 3, 1}, "optimizer=host,parameters=host"}};
  all.insert(all.end(), more.begin(), more.end());
  expect_the_bits(runs, gpt(runs), dtype, all);
}

constexpr const char* in_part = "optimizer=disk,parameters=host:0.5,gradients=host:0.5";

TEST(GpuOffload, TheBitsOfTheDevice) {
  expect_the_bits_of_the_device("f32", {{{1, 0, 1}, "optimizer=host"},
                                        {breadth_first(), "optimizer=host,parameters=host,gradients=host"},
                                        {breadth_first(2), in_part},
                                        {breadth_first(2), "parameters=disk:0.5,gradients=disk"},
                                        {{1, 0, 1, "f32", "full"}, "activations=host"},
                                        {{1, 0, 1, "f32", "full"}, "activations=disk"},
                                        {{4, 2, 1}, "gradients=host"},
                                        {stages("none"), "optimizer=host"}});
}
TEST(GpuOffload, TheBitsOfTheDeviceInBf16) {
  expect_the_bits_of_the_device("bf16",
                                {{{2, 2, 1}, "optimizer=disk"},
                                 {rounded(breadth_first(2)), in_part},
                                 {rounded(breadth_first()), "optimizer=disk,parameters=disk,gradients=disk"},
                                 {rounded({2, 3, 1, "f32", "full"}), "optimizer=host,parameters=disk"},
                                 {{2, 1, 1, "f32", "full"}, "optimizer=host,activations=host:0.5"},
                                 {breadth_first(), "optimizer=host,parameters=host,gradients=host,activations=host"},
                                 {stages("full"), "activations=host"},
                                 {stages("full:0.6"), "optimizer=host,activations=disk"},
                                 {breadth_first(), "parameters=disk,activations=disk:0.7"}});
}

TEST(GpuOffload, OfExperts) {
  SmallRun runs;
  ParallelLayout shared{2, 1};
  shared.experts = 2;
  expect_the_bits(runs, experts(runs), "bf16",
                  {{rounded({1, 0, 1}), "optimizer=host"},
                   {{2, 3, 1}, "optimizer=host,parameters=host"},
                   {rounded(shared), "optimizer=host"}});
}

// From the device to the host, to the disk, to a CPU and back. The last checkpoint has the states of all.
TEST(GpuOffload, ResumesElsewhere) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    auto whole = tiny(runs, std::string("whole-") + dtype, gpt(runs));
    whole.steps = 6;
    const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1, dtype}));
    auto moved = whole;
    moved.output += "-moved", moved.save_every = 2;
    const auto run_until = [&](std::int64_t step, const ParallelLayout& layout, const char* text) {
      moved.stop_after = step, moved.offload = offload(text);
      return runs.run(moved, layout);
    };
    run_until(1, {1, 0, 1, dtype}, "none");
    run_until(3, {2, 3, 1, dtype}, "optimizer=host,parameters=host");
    run_until(4, {2, 3, 1, dtype}, "optimizer=disk,parameters=disk");
    const auto last = run_until(0, {1, 3, 1, dtype}, "optimizer=host:0.5");
    EXPECT_EQ(last.code, base::ExitCode::done);
    EXPECT_EQ(runs.bits(moved, last), expected);
  }
}

TEST(GpuOffload, SkippedStepsChangeNothing) {
  SmallRun runs;
  auto c = tiny(runs, "skips", gpt(runs));
  c.steps = 14, c.loss_scale = "dynamic:4294967296,4,1", c.validate_every = 0, c.validation_sequences = 0;
  const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, "f16"}));
  ASSERT_GT(SmallRun::metrics(c).back().value("skipped_steps", 0), 0) << "this run is to overflow";
  c.output += "-host", c.offload = offload("optimizer=host,parameters=host");
  EXPECT_EQ(runs.bits(c, runs.run(c, {2, 3, 1, "f16"})), expected);
}

// The device has room for weights and gradients, and not for the states of AdamW.
TEST(GpuOffload, TrainsWhatTheDeviceCannotHold) {
  if (std::string(tensor::gpu_module().runtime->name) != "emulated") GTEST_SKIP() << "a device has the memory it has";
  SmallRun runs;
  auto c = tiny(runs, "large",
                runs.model("gpu-large",
                           "layers = 2\nhidden = 64\nheads = 2\nkv-heads = 2\nffn = 256\n"
                           "context = 8\n"));
  const ParallelLayout layout{1, 0, 1, "bf16"};
  const auto expected = runs.bits(c, runs.run(c, layout));
  const auto bytes = [&](const char* text) {
    auto of = c;
    SmallRun::apply(layout, of);
    of.offload = offload(text);
    const auto memory = engine::make_setup(of, 1, 1).plan.memory;
    return memory.total() - memory.reserve;
  };
  const auto with = bytes("optimizer=host"), without = bytes("none");
  ASSERT_LT(with + (1 << 20), without);
  auto of_host = c;
  SmallRun::apply(layout, of_host);
  of_host.offload = offload("optimizer=host"), of_host.host_memory = "1MiB";
  EXPECT_THROW(engine::make_setup(of_host, 1, 1), base::Error);
  of_host.host_memory = "1GiB";
  EXPECT_NO_THROW(engine::make_setup(of_host, 1, 1));
  // Results and lists are outside of the arenas.
  setenv("TRAINYARD_EMULATED_MEMORY", std::to_string(with + (without - with) / 2).c_str(), 1);
  c.output += "-refused";
  EXPECT_THROW(runs.run(c, layout), comm::AgreedError);
  c.output += "-host", c.offload = offload("optimizer=host");
  EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected);
  unsetenv("TRAINYARD_EMULATED_MEMORY");
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
