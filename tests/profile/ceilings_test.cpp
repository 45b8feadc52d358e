// Tests ceilings, on the CPU and on a GPU: what is measured, how its work is counted, and the rates of that work.
#include "libtrain/profile/ceilings.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/spec/presets.h"
#include "libtrain/tensor/gpu.h"
#include "tests/gpu_main.h"
#include "tests/profile/known_link.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace trainyard {
namespace {

profile::CeilingOptions small(base::Device device, const std::string& folder) {
  profile::CeilingOptions o;
  o.model = plan::preset("gpt2-nano");
  o.model.vocabulary = 300, o.model.lanes = 1;
  o.micro_batch = 2, o.sequence = 32;
  o.dtypes = {base::DType::f32, base::DType::bf16};
  o.threads = 2;
  o.device = device;
  o.disk_folder = folder;
  o.disk_bytes = 1 << 20;
  o.confidence = 0.5, o.budget_seconds = 2;
  o.copied_bytes = 1 << 20;
  o.storage_folders = {folder, folder + "/."};
  return o;
}

// The work of every ceiling on both devices, by name.
TEST(Ceilings, WorkIsCountedByTheBook) {
  const trainyard::testing::Scratch folder;
  for (const auto device : {base::Device{}, base::Device{base::DeviceKind::cuda, 0}}) {
    auto o = small(device, folder.path);
    const auto& m = o.model;
    std::map<std::string, double> amounts;
    std::map<std::string, std::vector<std::string>> folders;
    for (const auto& c : profile::ceilings(o, "0")) {
      folders[c.name].push_back(c.shape);
      if (c.name == "memory.copy" || c.name == "memory.write" || c.name.starts_with("copy.") ||
          c.name.starts_with("arithmetic"))
        continue;  // too large to make here
      const auto work = c.make();
      work.run();
      work.finish();
      amounts[c.name + (c.shape.ends_with("bf16") ? " bf16" : "")] = work.amount;
    }
    const double n = 64, h = static_cast<double>(m.hidden), ffn = static_cast<double>(m.ffn), T = 32;
    for (const std::string t : {"", " bf16"}) {
      for (const auto* kind : {"forward", "input", "weight"}) {
        EXPECT_EQ(amounts["gemm.attention.qkv." + std::string(kind) + t], 2 * n * h * 3 * h) << kind << t;
        EXPECT_EQ(amounts["gemm.ffn.in." + std::string(kind) + t], 2 * n * h * ffn);
        EXPECT_EQ(amounts["gemm.head." + std::string(kind) + t], 2 * n * h * 384);  // 300 words are stored as 384 rows
      }
      EXPECT_EQ(amounts["attention.forward" + t],
                2 * 2 * T * T * h);  // 2 sequences, 2 products of 2 T T h, half of them masked
      EXPECT_EQ(amounts["attention.backward" + t], 5 * 2 * T * T * h);
    }
    EXPECT_EQ(amounts["adamw"], 28.0 * (1 << 24));
    EXPECT_EQ(amounts["disk.write"], 1 << 20);
    EXPECT_EQ(amounts["disk.read"], 1 << 20);
    EXPECT_EQ(amounts["storage.write"], 1 << 20);
    EXPECT_EQ(amounts["storage.read"], 1 << 20);
    EXPECT_EQ(amounts["storage.update"], 2 << 20);
    EXPECT_EQ(folders["storage.update"],
              (std::vector<std::string>{folder.path, folder.path + "/.", folder.path + ", " + folder.path + "/."}));
    EXPECT_EQ(amounts["host.copy"], device.kind == base::DeviceKind::cuda ? 2 << 20 : 0);
    EXPECT_EQ(amounts.count("launch"), device.kind == base::DeviceKind::cuda ? 1u : 0u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));  // no file is left
}

// The prediction follows from a short trial. On this clock, making the data, the cold run and each warm run take one
// second, so twice the trial's bytes take two. The measurement then has as many repeats as were predicted.
TEST(Ceilings, TheLeastTimeIsPredicted) {
  const trainyard::testing::Scratch folder;
  auto o = small({}, folder.path);
  o.dtypes = {base::DType::f32}, o.copied_bytes = std::int64_t{32} << 20,
  o.budget_seconds = 0;  // no more than the least time
  profile::Ranks alone;
  alone.clock = std::make_shared<testing::LookClock>();
  const auto list = profile::ceilings(o, "0");
  const auto least = profile::least_ceiling_seconds(alone, o);
  ASSERT_EQ(least.size(), list.size());
  int copies = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_GT(least[i], 0) << list[i].name;
    if (list[i].name != "memory.copy") continue;
    ++copies;
    EXPECT_NEAR(least[i], 2 + 2 + 2 * profile::least_ceiling_repeats, 1e-9);
  }
  EXPECT_GE(copies, 1);
  comm::Ledger rounds;
  for (const auto& r : profile::measure_ceilings(alone, o, {}, rounds))
    EXPECT_EQ(r.repeats.size(), static_cast<std::size_t>(profile::least_ceiling_repeats)) << r.name;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(Ceilings, AllAreMeasuredOnAllRanks) {
  const trainyard::testing::Scratch folder;
  std::vector<plan::LocalRate> rates;
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& world) {
    auto r = testing::ranks_of(rank, world);
    r.clock = std::make_shared<profile::Clock>();
    auto o = small({}, folder.path);
    o.dtypes = {base::DType::f32}, o.threads = 1;
    comm::Ledger rounds;
    auto measured = profile::measure_ceilings(r, o, {}, rounds);
    EXPECT_EQ(rounds.sequence(), measured.size());
    if (rank == 0) rates = std::move(measured);
  });
  std::vector<std::string> names;
  for (const auto& r : rates) {
    names.push_back(r.name);
    EXPECT_GT(r.value, 0) << r.name;
    EXPECT_LE(r.interval.low, r.value);
    EXPECT_GE(r.interval.high, r.value);
    EXPECT_GE(r.repeats.size(), static_cast<std::size_t>(profile::least_ceiling_repeats)) << r.name;
  }
  for (const auto* name : {"arithmetic.f32", "memory.copy", "memory.write", "gemm.attention.qkv.forward",
                           "gemm.head.weight", "attention.forward", "attention.backward", "adamw", "disk.write",
                           "disk.read", "storage.write", "storage.read", "storage.update"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(Ceilings, ADiskThatCannotBeWritten) {
  const auto o = small({}, "/proc/no/such/place");
  const auto list = profile::ceilings(o, "0");
  const auto disk = std::find_if(list.begin(), list.end(), [](const auto& c) { return c.name == "disk.write"; });
  EXPECT_THROW(disk->make(), base::EnvironmentError);
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
