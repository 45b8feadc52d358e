// Whatever makes a new checkpoint sees a request to stop between two rank files. Files that an earlier start finished
// outlive a start that could not check all of them.
#include "tests/checkpoint/reshard_files.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/import_model.h"

#include <gtest/gtest.h>

#include <functional>

using namespace sample;

namespace {

struct Interrupted {};
using Watch = std::function<void(std::int64_t, std::int64_t)>;

int rank_files_in(const std::string& folder) {
  int files = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    files += name.starts_with("rank-") && name.ends_with(".h5") ? 1 : 0;
  }
  return files;
}

// Runs work that is asked to stop as soon as `most` of its rank files exist. Returns how many existed then.
int stopped_at(const std::string& destination, int most, const std::function<void(const Watch&)>& work) {
  int seen = 0;
  EXPECT_THROW(work([&](std::int64_t done, std::int64_t total) {
                 EXPECT_LE(done, total);
                 seen = rank_files_in(destination + ".partial");
                 if (seen >= most) throw Interrupted();
               }),
               Interrupted);
  EXPECT_FALSE(fs::exists(destination));
  return seen;
}

}  // namespace

TEST(NewCheckpoint, AStopIsHeardWhileRankFilesAreLaidOut) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to";
  save(scratch.path + "/from", state(gpt_of_heads(), base::DType::bf16, 5), 2);
  const auto source = whole(from);
  checkpoint::ReshardOptions o;
  o.threads = 2;
  for (const int most : {0, 1, 3}) {
    EXPECT_EQ(stopped_at(to, most,
                         [&](const Watch& watch) {
                           o.watch = watch;
                           checkpoint::reshard(source, to, {20, {}, {}, {}, {}, 2}, o);
                         }),
              most);
    EXPECT_FALSE(fs::exists(to + ".partial"));
    EXPECT_EQ(stopped_at(to, most,
                         [&](const Watch& watch) {
                           o.watch = watch;
                           checkpoint::average({&source, &source}, to, {20, {}, {}, {}, {}, 2}, o);
                         }),
              most);
    EXPECT_FALSE(fs::exists(to + ".partial"));
  }
  checkpoint::ImportOptions import;
  EXPECT_EQ(stopped_at(to, 0,
                       [&](const Watch& watch) {
                         import.watch = watch;
                         checkpoint::import_model(HUGGING_FACE "/gpt2", to, import);
                       }),
            0);
  EXPECT_FALSE(fs::exists(to + ".partial"));
}

// A start ends while it checks the existing files, by a stop or because a file cannot be read just then.
TEST(NewCheckpoint, WhatIsFinishedStaysUntilAllOfItWasLookedAt) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to";
  save(scratch.path + "/from", state(middling(), base::DType::f32, 5), 2);
  const checkpoint::NewLayout layout{6, {}, {}, {}};
  checkpoint::ReshardOptions o;
  o.memory = checkpoint::least_reshard_memory;
  o.watch = [&, all = whole(from).bytes()](std::int64_t done, std::int64_t) {
    if (done >= all * 3 / 4) throw Interrupted();
  };
  EXPECT_THROW(reshard(from, to, layout, o), Interrupted);
  const auto finished = rank_files_in(to + ".partial");
  ASSERT_GE(finished, 2);
  for (int calls = 0; calls < 3; ++calls) {
    o.watch = [left = calls](std::int64_t, std::int64_t) mutable {
      if (left-- == 0) throw Interrupted();
    };
    EXPECT_THROW(reshard(from, to, layout, o), Interrupted);
    EXPECT_EQ(rank_files_in(to + ".partial"), finished) << calls;
    EXPECT_FALSE(fs::exists(to + ".partial/lock"));
  }
  o.watch = {};
  EXPECT_EQ(reshard(from, to, layout, o).kept, finished);
}

// The same for a start that lacked only the final name, because somebody had taken the name meanwhile.
TEST(NewCheckpoint, WhatIsFinishedStaysUntilItHasTheName) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to";
  save(scratch.path + "/from", state(gpt_of_heads(), base::DType::f32, 5), 2);
  const checkpoint::NewLayout layout{3, {}, {}, {}, {}, 2};
  checkpoint::ReshardOptions o;
  o.history = "{}\n";
  o.watch = [&](std::int64_t done, std::int64_t total) {
    if (done == total) fs::create_directory(to);
  };
  EXPECT_THROW(reshard(from, to, layout, o), base::UsageError);
  EXPECT_EQ(rank_files_in(to + ".partial"), 6);
  fs::remove(to);
  o.watch = {};
  EXPECT_EQ(reshard(from, to, layout, o).kept, 6);
  EXPECT_EQ(slurp(to + "/history.jsonl"), o.history);
  fs::remove(to + "/history.jsonl");
  save(scratch.path + "/expected", state(gpt_of_heads(), base::DType::f32, 5), plan::replicas_of(6, 2));
  expect_same_files(to, scratch.path + "/expected/step-00000005", "with no rank's index or sidecar");
}
