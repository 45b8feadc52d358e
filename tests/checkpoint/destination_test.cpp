// Where a new checkpoint may be written: not among the checkpoints of a run, by whatever path.
#include "tests/checkpoint/reshard_files.h"

#include "libtrain/base/folder_lock.h"
#include "libtrain/checkpoint/destination.h"

#include <gtest/gtest.h>

using namespace sample;

namespace {

bool is_refused(const std::string& path) {
  try {
    checkpoint::require_outside_of_runs(path);
    return false;
  } catch (const base::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("where only that run may write"), std::string::npos) << e.what();
    return true;
  }
}

}  // namespace

TEST(Destination, NotAmongTheCheckpointsOfARun) {
  for (const char* mark : {"lock", "metrics.jsonl", "last-checkpoint"}) {
    Scratch scratch;
    const auto run = scratch.path + "/run", kept = run + "/checkpoints";
    fs::create_directories(kept);
    EXPECT_FALSE(is_refused(kept + "/step-00000005")) << "nothing says that it is a run";
    spit(run + "/" + mark, "");
    for (const auto& path : {kept, kept + "/", kept + "/step-00000005", kept + "/mine/", kept + "/step-00000005/inside",
                             run + "/../run/./checkpoints/mine", kept + "/none/../mine"})
      EXPECT_TRUE(is_refused(path)) << mark << path;
    for (const auto& path : {scratch.path + "/mine", run + "/mine", run + "/checkpoints-of-mine/it", kept + "/../mine"})
      EXPECT_FALSE(is_refused(path)) << mark << path;
    fs::remove(kept);
    EXPECT_TRUE(is_refused(kept)) << "before its first checkpoint";
    EXPECT_TRUE(is_refused(kept + "/mine"));
  }
}

TEST(Destination, OnlyTheLockOfAHolderMakesARun) {
  Scratch scratch;
  const auto folder = scratch.path + "/place", inside = folder + "/checkpoints/mine";
  fs::create_directories(folder + "/checkpoints");
  spit(folder + "/lock", "{\"dependencies\": []}\n");
  EXPECT_FALSE(is_refused(inside)) << "somebody's file";
  for (const char* left : {"", "process 7 on a host, since 2026-01-31T23:59:59Z, start 0\n"}) {
    spit(folder + "/lock", left);
    EXPECT_TRUE(is_refused(inside)) << left;
  }
  fs::remove(folder + "/lock");
  {
    const base::FolderLock held(folder, "");
    EXPECT_TRUE(is_refused(inside));
  }
  fs::create_directory(folder + "/lock");
  EXPECT_FALSE(is_refused(inside));
  fs::remove(folder + "/lock");
  fs::create_symlink("/dev/null", folder + "/lock");  // no holder makes a link
  EXPECT_FALSE(is_refused(inside));
}

TEST(Destination, LinksAreFollowedBothWays) {
  Scratch scratch;
  const auto run = scratch.path + "/run", disk = scratch.path + "/disk";
  fs::create_directories(run);
  fs::create_directories(disk);
  spit(run + "/metrics.jsonl", "");
  fs::create_directory_symlink(disk, run + "/checkpoints");
  EXPECT_TRUE(is_refused(run + "/checkpoints/mine")) << "the run's checkpoints lie on another disk";
  EXPECT_FALSE(is_refused(disk + "/mine"));
  fs::create_directories(scratch.path + "/other/checkpoints");
  spit(scratch.path + "/other/lock", "");
  fs::create_directory_symlink(scratch.path + "/other/checkpoints", scratch.path + "/short");
  EXPECT_TRUE(is_refused(scratch.path + "/short/mine")) << "a link into a run";
}

// --force does not change that, and nothing is made. Beside the run it is allowed.
TEST(Destination, AReshardIntoARunIsRefused) {
  Scratch scratch;
  const auto run = scratch.path + "/run";
  save(run + "/checkpoints", state(gpt(), base::DType::f32, 5), 2);
  spit(run + "/last-checkpoint", "step-00000005\n");
  checkpoint::ReshardOptions anew;
  anew.existing = base::Existing::replace;
  for (const char* name : {"step-00000007", "step-00000005"})
    for (const auto& options : {checkpoint::ReshardOptions{}, anew})
      EXPECT_THROW(reshard(run + "/checkpoints/step-00000005", run + "/checkpoints/" + name, {}, options),
                   base::UsageError);
  EXPECT_FALSE(fs::exists(run + "/checkpoints/step-00000007.partial"));
  EXPECT_EQ(reshard(run + "/checkpoints/step-00000005", run + "/mine", {}).ranks, 2);
}
