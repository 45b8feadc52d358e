// Promise 3 (libtrain/README.md) with validations whose last accumulation step is uneven: a run sends the announced
// bytes, however often it validates.
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::expect_no_difference;
using testing::SmallRun;

TEST(Accounting, ValidationsAreRoundedOneByOne) {
  SmallRun runs;
  int n = 0;
  for (int zero : {1, 2, 3})
    for (const auto& [ranks, sequences] : std::vector<std::pair<int, std::int64_t>>{{2, 1}, {3, 4}, {2, 4}}) {
      auto c = runs.config(fmt::format("validates-{}", n++));
      c.steps = 5;
      c.global_batch = 4;
      c.validate_every = 2;  // and once more at the end
      c.validation_sequences = sequences;
      runs.run(c, {ranks, zero, 1});
      expect_no_difference(runs.reports(),
                           fmt::format("{} ranks, ZeRO {}, {} sequences a validation", ranks, zero, sequences));
    }
}

// A run in two parts: each part counts its own gathers, also the gathers after its last update.
TEST(Accounting, AStopAndAResumeAnnounceWhatTheySend) {
  SmallRun runs;
  for (int zero : {0, 1, 3}) {
    auto c = runs.config(fmt::format("parts-{}", zero));
    c.steps = 4;
    c.global_batch = 4;
    c.stop_after = 2;
    ASSERT_EQ(runs.run(c, {2, zero, 1}).code, base::ExitCode::requeue);
    expect_no_difference(runs.reports(), fmt::format("first part, ZeRO {}", zero));
    c.stop_after = 0;
    ASSERT_EQ(runs.run(c, {2, zero, 1}).code, base::ExitCode::done);
    expect_no_difference(runs.reports(), fmt::format("second part, ZeRO {}", zero));
  }
}

}  // namespace
}  // namespace trainyard
