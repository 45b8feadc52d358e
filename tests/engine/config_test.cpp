// The names that other trainers give to settings of a run.
#include "libtrain/base/error.h"
#include "libtrain/base/foreign_words.h"
#include "libtrain/engine/config.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::engine {
namespace {

TEST(Config, AScheduleOfStagesHasAFlagOfItsOwn) {
  RunConfig c;
  auto fields = fields_of(c);
  auto& schedule = base::field_named(fields, "schedule", "a run");
  for (const std::string word : {"1f1b", "gpipe", "naive", "interleaved"}) {
    try {
      schedule.set(word, "--lr-schedule");
      ADD_FAILURE() << word;
    } catch (const base::UsageError& e) {
      EXPECT_EQ(e.hint(), "--pipeline-schedule " + word);
    }
  }
  schedule.set("linear", "--lr-schedule");
  EXPECT_EQ(c.schedule, "linear");
}

TEST(Config, WordsOfOtherTrainersForStages) {
  RunConfig c;
  std::vector<std::string> names;
  for (const auto& f : fields_of(c)) names.push_back(f.name);
  const auto hint = [&](const char* word) { return base::foreign_word_hint(word, names, base::Spelling::flags); };
  EXPECT_EQ(hint("--pipeline-model-parallel-size"), "here it is --pipeline-parallel: stages");
  EXPECT_EQ(hint("--tensor-model-parallel-size"), "here it is --tensor-parallel: ranks");
  EXPECT_EQ(hint("--expert-model-parallel-size"), "here it is --expert-parallel: ranks");
  EXPECT_EQ(hint("--num-chunks").find("here it is --virtual-stages: "), 0u);
  EXPECT_EQ(hint("--pp-schedule").find("here it is --pipeline-schedule: "), 0u);
  EXPECT_EQ(hint("--partition-method").find("here it is --partition: "), 0u);
  EXPECT_NE(hint("--dp").find("as many as the launcher starts"), std::string::npos);
  EXPECT_EQ(hint("--tp-size"), "here it is --tensor-parallel: ranks");
  EXPECT_EQ(hint("--pp-size"), "here it is --pipeline-parallel: stages");
  EXPECT_EQ(hint("--deterministic").find("here it is --reduction: every run repeats its bits"), 0u);
  EXPECT_EQ(hint("--cpu-offload").find("there is no offload"), 0u);
  EXPECT_EQ(hint("--torch-compile").find("nothing to switch on"), 0u);
  EXPECT_EQ(hint("--context"), "here it is --sequence");
}

}  // namespace
}  // namespace trainyard::engine
