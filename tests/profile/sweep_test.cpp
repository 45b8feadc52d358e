// Tests the sweep over links of known times: what it measures, which rank it finds slow, when it stops or refuses.
#include "libtrain/profile/sweep.h"
#include "libtrain/base/error.h"
#include "tests/profile/known_link.h"

#include <gtest/gtest.h>

#include <mutex>

namespace trainyard {
namespace {

using testing::Meddling;

struct Swept {
  std::vector<plan::CommSeries> series;  // of rank 0
  int passes = 0;
  double seconds = 0;
  std::uint64_t rounds = 0;
};

Swept sweep(int ranks, const std::string& groups, const profile::SweepOptions& options,
            const std::function<Meddling(int)>& meddling = {}) {
  Swept out;
  const auto families = plan::parse_groups(groups, ranks);
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto r = testing::ranks_of(rank, world, meddling);
    profile::SweepListener listener;
    listener.on_pass = [&](int pass, double seconds, int, int) { out.passes = pass, out.seconds = seconds; };
    comm::Ledger rounds;
    auto series = profile::sweep(r, families, options, listener, rounds);
    if (rank == 0) out.series = std::move(series), out.rounds = rounds.sequence();
  });
  return out;
}

profile::SweepOptions options(std::vector<std::string> operations, std::int64_t from, std::int64_t to, double budget) {
  profile::SweepOptions o;
  o.operations = std::move(operations);
  o.dtypes = {base::DType::f32};
  o.min_bytes = from, o.max_bytes = to, o.factor = 4, o.confidence = 0.1, o.budget_seconds = budget;
  return o;
}

// A call takes 200 us + bytes / 100 MB/s of a clock that nothing else advances, so measurements are exact.
TEST(Sweep, AKnownLinkIsMeasured) {
  const auto known = [](int) {
    return Meddling{
        [](std::int64_t bytes) { testing::SimulatedClock::spend(200e-6 + static_cast<double>(bytes) / 100e6); }, {}};
  };
  const auto s = sweep(2, "pair:all", options({"all_gather", "broadcast"}, 1024, 262144, 4), known);
  ASSERT_EQ(s.series.size(), 2u);
  for (const auto& series : s.series) {
    EXPECT_EQ(series.group, "pair");
    EXPECT_EQ(series.ranks, 2);
    ASSERT_EQ(series.points.size(), 5u);
    for (const auto& p : series.points) {
      const double truth = 200e-6 + static_cast<double>(p.bytes) / 100e6;
      for (const double t : {p.seconds, p.interval.low, p.interval.high, p.p95, p.p99})
        EXPECT_NEAR(t, truth, 1e-9) << p.bytes;
      EXPECT_EQ(p.wrong, 0);
      EXPECT_GE(p.repeats.size(), static_cast<std::size_t>(profile::least_passes));
      EXPECT_GE(p.calls, static_cast<std::int64_t>(3 * p.repeats.size()));
    }
    EXPECT_NEAR(series.fit.seconds(100000), 1200e-6, 1e-9);
    EXPECT_LT(series.noise_floor, 1e-9);
  }
  EXPECT_GT(s.rounds, 10u * static_cast<unsigned>(profile::least_passes));  // the watchdog sees each visit as a call
}

TEST(Sweep, TheSlowRankIsNamed) {
  const auto slow = [](int rank) {
    return Meddling{{}, [rank](base::View) { testing::SimulatedClock::spend(rank == 2 ? 2e-3 : 1e-3); }};
  };
  const auto s = sweep(3, "all:all", options({"all_gather"}, 1024, 1024, 3), slow);
  EXPECT_EQ(s.series.at(0).points.at(0).slowest_rank, 2);
  EXPECT_EQ(s.series[0].points[0].slowest_share, 1);
  EXPECT_NEAR(s.series[0].points[0].seconds, 2e-3, 1e-9);
}

// Groups of a family work at the same time, and the slowest counts. Ranks outside wait without harm.
TEST(Sweep, GroupsAndIdleRanks) {
  const auto slow = [](int rank) {
    return Meddling{[rank](std::int64_t) { testing::SimulatedClock::spend(rank == 3 ? 1e-3 : 1e-6); }, {}};
  };
  const auto s =
      sweep(5, "pairs:0-1/2-3;three:0,2,4;odd:1,3", options({"all_reduce", "exchange"}, 4096, 4096, 6), slow);
  ASSERT_EQ(s.series.size(), 6u);
  for (const auto& series : s.series) {
    EXPECT_EQ(series.groups, series.group == "pairs" ? 2 : 1);
    EXPECT_EQ(series.ranks, series.group == "three" ? 3 : 2);
    EXPECT_EQ(series.points.at(0).wrong, 0) << series.group;
    EXPECT_NEAR(series.points[0].seconds, series.group == "three" ? 1e-6 : 1e-3, 1e-9) << series.group;
  }
}

TEST(Sweep, WrongResultsAreCountedInEveryVisit) {
  int calls = 0;
  std::mutex mutex;
  const auto corrupt = [&](int rank) {
    return Meddling{[](std::int64_t) { testing::SimulatedClock::spend(1e-3); },
                    [&, rank](base::View v) {
                      std::lock_guard lock(mutex);
                      if (rank == 1) ++calls, static_cast<char*>(v.data)[0] ^= 0x10;
                    }};
  };
  for (const auto* operation : {"all_reduce", "all_to_all"}) {
    const auto s = sweep(2, "all:all", options({operation}, 1024, 1024, 2), corrupt);
    const auto& p = s.series.at(0).points.at(0);
    // One in the first and one in the last call of each visit, and one in the warm-up pass.
    EXPECT_EQ(p.wrong, static_cast<std::int64_t>(2 * p.repeats.size() + 1)) << operation;
  }
}

TEST(Sweep, StopsWhenEnoughIsKnownOrTimeIsUp) {
  const auto steady = [](int) { return Meddling{[](std::int64_t) { testing::SimulatedClock::spend(300e-6); }, {}}; };
  auto o = options({"all_gather"}, 1024, 1024, 3);
  o.confidence = 0.9;
  const auto known = sweep(2, "all:all", o, steady);
  EXPECT_EQ(known.passes, profile::settled_repeats);
  EXPECT_NEAR(known.seconds, 1.5, 0.1);  // spread over half of the budget
  o.spread = 0;
  EXPECT_LT(sweep(2, "all:all", o, steady).seconds, 0.1);  // one right after the other
  o.spread = 0.5;
  // Every call takes a different time, so the median is never known well enough.
  o.confidence = 1e-9, o.budget_seconds = 1;
  const auto restless = [](int) {
    auto calls = std::make_shared<int>(0);
    return Meddling{[calls](std::int64_t) { testing::SimulatedClock::spend(1e-4 * (1 + ++*calls % 97)); }, {}};
  };
  const auto never = sweep(2, "all:all", o, restless);
  EXPECT_GT(never.passes, profile::settled_repeats);
  EXPECT_GT(never.seconds, 0.9);
  EXPECT_LE(never.seconds, 1.0);
}

TEST(Sweep, ABudgetThatIsTooShort) {
  const auto slow = [](int) { return Meddling{[](std::int64_t) { testing::SimulatedClock::spend(20e-3); }, {}}; };
  try {
    sweep(2, "all:all", options({"all_gather"}, 1024, 262144, 0.3), slow);
    ADD_FAILURE();
  } catch (const profile::AgreedError& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("budget of 0.3 s is too short"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("--budget"), std::string::npos) << e.hint();
  }
}

// Beside a rank's own ceilings: the refusal names the whole budget that was given, and suggests more.
TEST(Sweep, ABudgetThatIsTooShortBesideOtherMeasurements) {
  const auto slow = [](int) { return Meddling{[](std::int64_t) { testing::SimulatedClock::spend(20e-3); }, {}}; };
  for (const double elsewhere : {0.3, 5.0}) {
    auto o = options({"all_gather"}, 1024, 262144, 1.2);  // 5 points of some 60 ms, 6 passes
    o.elsewhere_seconds = elsewhere;
    try {
      sweep(2, "all:all", o, slow);
      ADD_FAILURE();
    } catch (const profile::AgreedError& e) {
      EXPECT_NE(std::string(e.what()).find(fmt::format("budget of {:g} s is too short", 1.2 + elsewhere)),
                std::string::npos)
          << e.what();
      const auto at = e.hint().find("--budget ");
      ASSERT_NE(at, std::string::npos) << e.hint();
      EXPECT_GT(std::stod(e.hint().substr(at + 9)), 1.2 + elsewhere) << e.hint();
    }
  }
}

// The least passes may take what other measurements can spare, and no more.
TEST(Sweep, ABudgetThatIsTooShortMayBorrow) {
  const auto slow = [](int) { return Meddling{[](std::int64_t) { testing::SimulatedClock::spend(20e-3); }, {}}; };
  auto o = options({"all_gather"}, 1024, 262144, 1.2);
  o.elsewhere_seconds = 5;
  o.borrowed_seconds = 0.1;
  EXPECT_THROW(sweep(2, "all:all", o, slow), profile::AgreedError);
  o.borrowed_seconds = 2.5;
  EXPECT_EQ(sweep(2, "all:all", o, slow).passes, profile::least_passes);
}

// A budget that a refusal suggests is not refused itself, even if a later pass takes as long as the first.
TEST(Sweep, TheBudgetThatIsToTryIsEnough) {
  const auto slow = [](int) {
    return Meddling{[](std::int64_t) { testing::SimulatedClock::spend(0.5); }, {}};
  };  // many seconds, because the suggestion is a whole number of seconds
  for (const double given : {0.001, 2.0}) {
    auto o = options({"all_gather"}, 1024, 262144, given);
    try {
      sweep(2, "all:all", o, slow);
      ADD_FAILURE();
    } catch (const profile::AgreedError& e) {
      o.budget_seconds = std::stod(e.hint().substr(e.hint().find("--budget ") + 9));
      EXPECT_NO_THROW(sweep(2, "all:all", o, slow)) << e.hint();
    }
  }
}

TEST(Sweep, PlansNoSizeTwice) {
  auto o = options({"all_gather", "ordered_reduce_scatter", "all_reduce"}, 8, 64, 1);
  o.factor = 2, o.dtypes = {base::DType::f32, base::DType::bf16};
  const auto planned = profile::planned(plan::parse_groups("a:0-6", 7), o);
  ASSERT_EQ(planned.size(), 4u);  // all_gather f32; ordered f32; all_reduce f32 and bf16
  std::vector<std::int64_t> sizes;
  for (const auto& p : planned[0].points) sizes.push_back(p.bytes);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{28, 56}));
}

}  // namespace
}  // namespace trainyard
