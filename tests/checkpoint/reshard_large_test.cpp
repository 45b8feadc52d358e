// Reshards 6 GB of checkpoint through 64 MiB of buffers: neither resident memory nor address space grows with the
// model. Takes some 13 GB of disk.
#include "tests/checkpoint/sample.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sample;
using trainyard::base::DType;

namespace {

// 504 million parameters, 12 bytes each. All flat groups of a kind are written from one buffer.
constexpr std::int64_t layers = 160;

void save_from_one_buffer(const std::string& folder, const checkpoint::RunState& s, int ranks) {
  for (int r = 0; r < ranks; ++r) {
    checkpoint::RankShards shards;
    shards.rank = r, shards.ranks = ranks;
    std::int64_t longest = 0;
    for (const auto& flat_group : plan::flat_groups(s.model))
      longest = std::max(longest, plan::layout(flat_group, ranks).shard);
    std::vector<float> buffer(static_cast<std::size_t>(longest));
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(i % 9973) * 1e-4f;
    for (const auto& flat_group : plan::flat_groups(s.model))
      for (const auto& kind : checkpoint::kinds_of(DType::f32))
        shards.views[kind].push_back(base::View(buffer.data(), DType::f32, {plan::layout(flat_group, ranks).shard}));
    shards.boxes = checkpoint::boxes_of_shards(s.model, plan::replicas_of(ranks, 1), r);
    checkpoint::write_rank(folder, s, shards, {});
  }
  checkpoint::publish(folder, s, plan::Topology({{plan::Axis::data, ranks}}), 3);
}

}  // namespace

TEST(ReshardLarge, MemoryDoesNotGrowWithTheModel) {
  Scratch scratch;
  if (fs::space(scratch.path).available < std::uintmax_t{16} << 30) GTEST_SKIP() << "needs 16 GiB of disk";
  auto model = gpt();
  model.layers = layers, model.hidden = 512, model.heads = 8, model.kv_heads = 8, model.ffn = 2048;
  save_from_one_buffer(scratch.path, state(model, DType::f32, 5), 2);
  const auto from = scratch.path + "/step-00000005", to = scratch.path + "/to";
  ASSERT_GT(checkpoint::Reader(from).bytes(), std::int64_t{6'000'000'000});
  for (const char* layout : {"--consolidate", "--data-parallel 7 --zero 3"}) {
    fs::remove_all(to);
    constexpr int resident_mib = 64 + 64, space_mib = 512;  // shared libraries, stacks
    const auto command =
        fmt::format("ulimit -v {} && MALLOC_ARENA_MAX=2 exec {} {} {} {} --memory 64MiB --threads 2 --progress never",
                    space_mib * 1024, RESHARD, from, to, layout);
    const auto pid = ::fork();
    if (pid == 0) {
      ::execl("/bin/bash", "bash", "-c", command.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    int status = 0;
    struct rusage used {};
    ASSERT_EQ(::wait4(pid, &status, 0, &used), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << ": " << status;
    EXPECT_LT(used.ru_maxrss, resident_mib * 1024) << command;
    EXPECT_TRUE(fs::exists(to + "/manifest.json"));
    ::testing::Test::RecordProperty("resident_kib", static_cast<int>(used.ru_maxrss));
  }
}
