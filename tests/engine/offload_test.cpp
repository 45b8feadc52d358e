// The files of a rank's states: each folder has the bytes that the plan says for its weight.
#include "libtrain/engine/offload.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/io/disk_storage.h"
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/disk_use.h"
#include "tests/plan/offload_plan.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/mount.h>
#include <sys/statvfs.h>

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

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const base::Error& e) {
    return fmt::format("{}: {} ({})", static_cast<int>(e.code()), e.what(), e.hint());
  }
  return "";
}

TEST(Offload, AFolderIsNamedOnceAlsoThroughALink) {
  const testing::Scratch scratch;
  const auto a = scratch.path + "/a", b = scratch.path + "/b", link = scratch.path + "/link";
  for (const auto& folder : {a, b}) std::filesystem::create_directory(folder);
  std::filesystem::create_symlink("a", link);
  EXPECT_EQ(refusal_of([&] {
              engine::require_several_folders({{b}, {a, 3}, {link}});
            }),
            fmt::format("2: --offload-dir: {} and {} are one folder (name each folder once)", a, link));
  EXPECT_EQ(refusal_of([&] { engine::require_several_folders({{a}, {b}, {a + "/none"}, {b + "/none"}}); }), "");
}

// What a start would refuse, on both ranks of a machine, and nothing stays.
TEST(Offload, ADryRunLooksAtTheFolders) {
  const testing::Scratch scratch;
  const auto file = scratch.path + "/file", absent = scratch.path + "/absent";
  std::ofstream(file) << "text";
  const auto plan = plan::small_offload_plan("optimizer=disk", 1);
  const auto look = [&](const std::vector<plan::OffloadFolder>& folders) {
    auto world = engine::solo_world();
    return refusal_of(
        [&] { engine::require_room(plan, world, *world.communication, folders, scratch.path + "/not/yet"); });
  };
  EXPECT_EQ(look({}), "");
  EXPECT_EQ(look({{scratch.path}}), "");
  EXPECT_EQ(look({{absent}}), "4: cannot make a file in " + absent +
                                  ": No such file or directory (make the folder on every machine of the run, or look "
                                  "from one that has it, or name other folders with --offload-dir)");
  EXPECT_EQ(look({{scratch.path + "/./not/yet/"}}), "") << "a start makes its output";
  EXPECT_EQ(look({{scratch.path}, {file}}),
            "4: cannot make a file in " + file + ": Not a directory (name other folders with --offload-dir)");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path), {}), 1);
}

TEST(Offload, ADryRunAddsTheRoomOfRanksAndFolders) {
  const testing::Scratch mount;
  if (::mount("test", mount.path.c_str(), "tmpfs", 0, "size=512k") != 0) GTEST_SKIP() << "only root can mount";
  const auto a = mount.path + "/a", b = mount.path + "/b";
  for (const auto& folder : {a, b}) std::filesystem::create_directory(folder);
  const auto plan = plan::small_offload_plan("optimizer=disk", 1);  // 1,294,336 bytes (FoldersShareByWeight)
  const auto look = [&] {
    auto world = engine::solo_world();
    return refusal_of([&] { engine::require_room(plan, world, *world.communication, {{a}, {b}}, ""); });
  };
  EXPECT_EQ(look(), fmt::format("4: the file system of {} has 524 kB free, and 1 rank on {} would take 1.29 MB of it "
                                "(free some space, or name other folders with --offload-dir, or more of them)",
                                a, base::host_name()));
  EXPECT_EQ(::mount("test", mount.path.c_str(), "tmpfs", MS_REMOUNT, "size=2m"), 0);
  EXPECT_EQ(look(), "");
  struct statvfs info {};
  EXPECT_EQ(::statvfs(mount.path.c_str(), &info), 0);
  EXPECT_EQ(info.f_bfree, info.f_blocks) << "something is left";
  EXPECT_EQ(::umount(mount.path.c_str()), 0);
}

}  // namespace offload_test
}  // namespace trainyard
