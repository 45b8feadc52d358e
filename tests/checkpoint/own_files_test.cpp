// A writer of checkpoints removes only files that such writers wrote. Somebody's thesis stays in an unfinished
// checkpoint, in an old one and in a replaced one.
#include "tests/checkpoint/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/checkpoint/own_files.h"

#include <gtest/gtest.h>

using namespace sample;

TEST(OwnFiles, NamesOfUnfinishedThings) {
  for (const char* name : {"step-00000003.partial", "step-123456789.partial", "step-00000003.removed.partial",
                           "step-00000003.removed.12.partial", "step-00000003.replaced.partial", "latest.partial"})
    EXPECT_TRUE(checkpoint::is_unfinished_name(name)) << name;
  for (const char* name : {"thesis.partial", "step-3.partial", "step-00000003", "step-0000000x.partial", ".partial",
                           "my-step-00000003.partial", "step-00000003.old.partial", "step-00000003.removed.x.partial",
                           "step-00000003.removed.2"})
    EXPECT_FALSE(checkpoint::is_unfinished_name(name)) << name;
}

TEST(OwnFiles, StalePartialsGoAndOthersStay) {
  Scratch scratch;
  fs::create_directories(scratch.path + "/step-00000003.partial");
  for (const char* name : {"rank-00000.h5", "rank-00001.json", "rank-00001.json.partial", "manifest.json.partial",
                           "checkpoint.h5.partial", "checkpoint.h5", "rank-00000.index", "rank-00001.index.partial",
                           "ranks.index", "ranks.index.partial", ".nfs000000000123"})
    spit(scratch.path + "/step-00000003.partial/" + name, "half");
  spit(scratch.path + "/latest.partial", "step");
  fs::create_directories(scratch.path + "/thesis.partial");
  spit(scratch.path + "/thesis.partial/thesis.tex", "years");
  spit(scratch.path + "/notes.partial", "years");
  checkpoint::remove_stale_partials(scratch.path);
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000003.partial"));
  EXPECT_FALSE(fs::exists(scratch.path + "/latest.partial"));
  EXPECT_EQ(slurp(scratch.path + "/thesis.partial/thesis.tex"), "years");
  EXPECT_EQ(slurp(scratch.path + "/notes.partial"), "years");
  fs::create_directories(scratch.path + "/step-00000004.partial");
  spit(scratch.path + "/step-00000004.partial/thesis.tex", "years");
  EXPECT_THROW(checkpoint::remove_stale_partials(scratch.path), base::UsageError);
  EXPECT_EQ(slurp(scratch.path + "/step-00000004.partial/thesis.tex"), "years");
}

TEST(OwnFiles, RetentionAndReplacementKeepWhatSomebodyPutIn) {
  Scratch scratch;
  const auto save_step = [&](std::int64_t step) { save(scratch.path, state(gpt(), base::DType::f32, step), 1, 2); };
  for (int step = 1; step <= 2; ++step) save_step(step);
  spit(scratch.path + "/step-00000001/notes.txt", "years");
  save_step(3);
  save_step(4);
  EXPECT_EQ(slurp(scratch.path + "/step-00000001/notes.txt"), "years");
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000002"));
  spit(scratch.path + "/step-00000004/notes.txt", "months");
  save_step(4);
  EXPECT_EQ(slurp(scratch.path + "/abandoned-step-00000004/notes.txt"), "months");
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000004/notes.txt"));
  EXPECT_TRUE(fs::exists(scratch.path + "/step-00000004/manifest.json"));
}
