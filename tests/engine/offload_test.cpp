// The files of a rank's states: each folder has the bytes that the plan says for its weight.
#include "libtrain/engine/offload.h"

#include "libtrain/io/disk_storage.h"
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/disk_use.h"
#include "tests/plan/offload_plan.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace trainyard {
namespace offload_test {

TEST(Offload, FoldersShareByWeight) {
  const testing::Scratch scratch;
  const auto a = scratch.path + "/a", b = scratch.path + "/b";
  for (const auto& folder : {a, b}) std::filesystem::create_directory(folder);
  const auto plan = plan::small_offload_plan("optimizer=disk", 1);
  const plan::FlatGroupSet set(plan.part_of_rank(0), plan.topology);
  const auto exec = tensor::Exec::caller(nullptr, 1);
  const auto bytes_of = [&](const std::vector<plan::OffloadFolder>& folders) {
    engine::RankMemory memory(plan.memory_of(0).categories);
    const auto states = engine::offloaded_states(plan, 0, set, memory, *exec, folders);
    return dynamic_cast<io::DiskStorage&>(*states->storage()).folder_bytes();
  };
  // m and v of tokens (32,768 bytes), positions (8,192), three layers (200,704) and the norm (4,096), placed by hand in
  // tests/plan/offload_folders_test.cpp.
  EXPECT_EQ(bytes_of({{a, 3}, {b, 1}}),
            (std::vector<std::int64_t>{2 * 32768 + 5 * 200704, 2 * 8192 + 200704 + 2 * 4096}));
  EXPECT_EQ(bytes_of({{a}, {b}}), std::vector<std::int64_t>(2, 32768 + 8192 + 3 * 200704 + 4096));
  engine::RankMemory memory(plan::small_offload_plan("none", 1).memory_of(0).categories);
  EXPECT_EQ(engine::offloaded_states(plan::small_offload_plan("none", 1), 0, set, memory, *exec, {}), nullptr);
}

}  // namespace offload_test
}  // namespace trainyard
