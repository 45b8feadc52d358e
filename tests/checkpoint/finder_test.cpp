// Folders of checkpoints with faults: no manifest, a link to nothing, no view, checkpoints that a run skips.
#include "tests/checkpoint/sample.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/view.h"

#include <gtest/gtest.h>

#include <thread>

using namespace sample;
using trainyard::base::DType;
using trainyard::base::InputError;

namespace {

std::vector<std::string> names_of(const std::vector<checkpoint::Found>& found) {
  std::vector<std::string> names;
  for (const auto& f : found) names.push_back(fs::path(f.path).filename().string());
  return names;
}

}  // namespace

TEST(Finder, ACheckpointWithoutItsManifestIsSeenAndPassedOver) {
  Scratch scratch;
  for (int step : {10, 20}) save(scratch.path, state(gpt(), DType::f32, step), 1);
  fs::remove(scratch.path + "/step-00000020/manifest.json");
  EXPECT_EQ(names_of(checkpoint::list(scratch.path)), (std::vector<std::string>{"step-00000020", "step-00000010"}));
  const auto found = checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::metadata);
  EXPECT_EQ(found.step, 10);
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_NE(found.refused[0].find("manifest.json"), std::string::npos);
  // A checkpoint without a manifest does not count for retention, and retention does not remove it.
  for (int step : {30, 40}) save(scratch.path, state(gpt(), DType::f32, step), 1, 2);
  EXPECT_EQ(names_of(checkpoint::list(scratch.path)),
            (std::vector<std::string>{"step-00000040", "step-00000030", "step-00000020"}));
}

// Reading /proc/self/mem at 0 is an I/O error, as from a bad disk or file server.
TEST(Finder, WhatCannotBeReadIsNotPassedOver) {
  Scratch scratch;
  for (int step : {10, 20}) save(scratch.path, state(gpt(), DType::f32, step), 1);
  const auto manifest = scratch.path + "/step-00000020/manifest.json";
  fs::remove(manifest);
  fs::create_symlink("/proc/self/mem", manifest);
  for (const auto verify : {checkpoint::Verify::metadata, checkpoint::Verify::everything})
    EXPECT_THROW(checkpoint::find_latest_whole(scratch.path, verify), trainyard::base::Unreadable);
  EXPECT_EQ(
      checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::metadata, {scratch.path + "/step-00000020"}).step,
      10);
}

TEST(Finder, AFolderThatCannotBeLookedAtIsNoEmptyFolder) {
  Scratch scratch;
  fs::create_symlink(scratch.path + "/not-mounted", scratch.path + "/checkpoints");
  EXPECT_THROW(checkpoint::list(scratch.path + "/checkpoints"), InputError);
  EXPECT_THROW(checkpoint::entries(scratch.path + "/checkpoints"), InputError);
  spit(scratch.path + "/file", "");
  EXPECT_THROW(checkpoint::list(scratch.path + "/file"), InputError);
  EXPECT_TRUE(checkpoint::list(scratch.path + "/absent").empty());
  fs::create_directory(scratch.path + "/not-mounted");
  EXPECT_TRUE(checkpoint::list(scratch.path + "/checkpoints").empty());
  EXPECT_TRUE(checkpoint::entries(scratch.path + "/checkpoints").empty());
}

TEST(Finder, EntriesAreWhatSomebodyPutThere) {
  Scratch scratch;
  for (const char* name : {"step-00000003.partial", "lost+found", ".snapshot"})
    fs::create_directory(scratch.path + "/" + name);
  EXPECT_TRUE(checkpoint::entries(scratch.path).empty());
  spit(scratch.path + "/latest", "");
  EXPECT_EQ(checkpoint::entries(scratch.path), (std::vector<std::string>{"latest"}));
}

TEST(Finder, WhatIsSetAsideIsListedButNeverChosen) {
  Scratch scratch;
  for (int step : {10, 20}) save(scratch.path, state(gpt(), DType::f32, step), 1);
  EXPECT_EQ(checkpoint::set_aside(checkpoint::list(scratch.path).front()), scratch.path + "/abandoned-step-00000020");
  save(scratch.path, state(gpt(), DType::f32, 20), 1);
  EXPECT_EQ(checkpoint::set_aside(checkpoint::list(scratch.path).front()), scratch.path + "/abandoned-step-00000020.2");
  EXPECT_EQ(names_of(checkpoint::list_abandoned(scratch.path)),
            (std::vector<std::string>{"abandoned-step-00000020", "abandoned-step-00000020.2"}));
  EXPECT_EQ(checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::metadata).step, 10);
  checkpoint::Reader(scratch.path + "/abandoned-step-00000020").verify_all();  // whole under its new name
  save(scratch.path, state(gpt(), DType::f32, 30), 1, 1);
  EXPECT_EQ(checkpoint::list_abandoned(scratch.path).size(), 2u) << "retention removes what was set aside";
}

TEST(Finder, AViewThatIsMissingOrDamagedPassesOverNothing) {
  Scratch scratch;
  for (int step : {10, 20}) save(scratch.path, state(gpt(), DType::f32, step), 2);
  const auto folder = scratch.path + "/step-00000020", view = folder + "/checkpoint.h5";
  const auto good = slurp(view);
  EXPECT_EQ(checkpoint::Reader(folder).view_problem(), "");
  fs::remove(view);
  EXPECT_EQ(checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::everything).step, 20);
  EXPECT_NE(checkpoint::Reader(folder).view_problem().find("missing"), std::string::npos);
  auto bad = good;
  bad[bad.size() / 2] ^= 1;
  spit(view, bad);
  EXPECT_EQ(checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::metadata).step, 20);
  EXPECT_NE(checkpoint::Reader(folder).view_problem().find("damaged"), std::string::npos);
  EXPECT_THROW(checkpoint::Reader(folder).verify_all(), InputError);  // the view is there and wrong
  checkpoint::make_view(folder);
  EXPECT_EQ(checkpoint::Reader(folder).view_problem(), "");
  EXPECT_EQ(slurp(view), good);
}

TEST(Files, EqualRunsGiveEqualFilesAtAnyTime) {
  Scratch scratch;
  const auto s = state(gpt(), DType::bf16, 5);
  save(scratch.path + "/a", s, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 would record the second
  save(scratch.path + "/b", s, 2);
  for (const char* name : {"manifest.json", "checkpoint.h5", "rank-00000.h5", "rank-00001.h5"})
    EXPECT_TRUE(slurp(scratch.path + "/a/step-00000005/" + name) == slurp(scratch.path + "/b/step-00000005/" + name))
        << name;
}
