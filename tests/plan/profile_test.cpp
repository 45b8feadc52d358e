// Tests the file of a profile: what is written is read, damage is refused. Also comparisons of known profiles.
#include "libtrain/plan/links/profile.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/links/profile_compare.h"
#include "libtrain/plan/plan_json.h"

#include <gtest/gtest.h>

#include <functional>

namespace trainyard::plan {
namespace profile_test {

CommSeries series(const std::string& operation, double scale) {
  CommSeries s{"data", operation, "f32", 4, 2, {}, {}, 0.03};
  for (std::int64_t bytes = 1024; bytes <= 1 << 20; bytes *= 4) {
    CommPoint p;
    p.bytes = bytes, p.count = bytes / 4;
    for (int r = 0; r < 20; ++r)
      p.repeats.push_back(scale * (1e-6 + static_cast<double>(bytes) / 1e9) * (1 + 0.001 * (r % 5 - 2)));
    p.seconds = base::median(p.repeats);
    p.interval = base::median_interval(p.repeats);
    p.p95 = 1.1 * p.seconds, p.p99 = 1.2 * p.seconds;
    p.calls = 60, p.slowest_rank = 3, p.slowest_share = 0.4;
    s.points.push_back(p);
  }
  s.fit = fit_link(s.samples());
  return s;
}

Profile sample(double scale = 1) {
  Profile p{"2026-11-21T12:00:00Z",
            "0.1.0",
            "mpi",
            "Open MPI v4.1.4",
            "cpu",
            "avx512",
            8,
            2,
            {"n1", "n2"},
            {series("all_gather", scale), series("all_reduce", 1)},
            {}};
  p.local.push_back({"memory.copy",
                     "256 MiB",
                     "B/s",
                     4,
                     4e10 / scale,
                     {3.9e10 / scale, 4.1e10 / scale},
                     {3.9e10 / scale, 4e10 / scale, 4.1e10 / scale}});
  p.local.push_back({"launch",
                     "",
                     "s",
                     1,
                     4e-6 * scale,
                     {3.9e-6 * scale, 4.1e-6 * scale},
                     {3.9e-6 * scale, 4e-6 * scale, 4.1e-6 * scale}});
  return p;
}

TEST(Profile, IsReadAsItWasWritten) {
  const auto text = to_json(sample());
  const auto p = profile_from_json(text, "p.json");
  EXPECT_EQ(to_json(p), text);
  ASSERT_EQ(p.communication.size(), 2u);
  EXPECT_EQ(p.communication[0].points.size(), 6u);
  EXPECT_EQ(p.communication[0].points[2].bytes, 16384);
  EXPECT_NEAR(p.communication[0].points[2].seconds, 17.384e-6, 1e-10);
  EXPECT_EQ(p.communication[0].points[2].repeats.size(), 20u);
  EXPECT_NEAR(p.find("data", "all_gather", "f32")->fit.seconds(100000), 101e-6, 2e-7);
  EXPECT_EQ(p.find("data", "broadcast", "f32"), nullptr);
  EXPECT_NE(p.find_local("memory.copy", "256 MiB", 4), nullptr);
  EXPECT_EQ(p.find_local("memory.copy", "256 MiB", 1), nullptr);
}

TEST(Profile, BusFactorsAreThePublishedOnes) {
  // nccl-tests doc/PERFORMANCE.md for 4 ranks.
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("reduce_scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("ordered_reduce_scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_to_all", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("broadcast", 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor("exchange", 4), 1);
}

TEST(Profile, DamageIsRefused) {
  const auto good = to_json(sample());
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string wrong[] = {"",
                               "{}",
                               "[]",
                               good.substr(0, good.size() / 2),
                               with("trainyard.profile/1", "trainyard.profile/2"),
                               with("trainyard.profile/1", "trainyard.plan/1"),
                               with("\"ranks\": 8", "\"ranks\": 0"),
                               with("\"ranks\": 8", "\"ranks\": \"8\""),
                               with("\"bytes\": 1024", "\"bytes\": 8192"),
                               with("\"bytes\": 1024", "\"byte\": 1024"),
                               with("\"from_bytes\": 0", "\"from_bytes\": -1"),
                               with("\"unit\": \"B/s\"", "\"unit\": \"B\""),
                               with("\"time_us\": ", "\"time_us\": -"),
                               with("\"wrong\": 0", "\"wrong\": 0, \"new\": 1")};
  for (const auto& text : wrong) {
    try {
      profile_from_json(text, "p.json");
      ADD_FAILURE() << text.substr(0, 200);
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find("p.json"), std::string::npos) << e.what();
    }
  }
}

TEST(ProfileCompare, FindsWhatIsSlower) {
  EXPECT_TRUE(regressions(compare(sample(), sample()), 0.05).empty());
  const auto slower = regressions(compare(sample(), sample(1.2)), 0.05);
  ASSERT_EQ(slower.size(), 8u);  // six sizes of all_gather, the copy and the launch
  EXPECT_NE(slower[0].what.find("all_gather f32 1024 B"), std::string::npos);
  EXPECT_NEAR(slower[0].change, 0.2, 0.01);
  EXPECT_NE(slower[6].what.find("memory.copy"), std::string::npos);
  EXPECT_NEAR(slower[6].change, 0.2, 0.01);
  EXPECT_TRUE(regressions(compare(sample(), sample(1.2)), 0.25).empty());  // within the threshold
  EXPECT_TRUE(regressions(compare(sample(1.2), sample()), 0.05).empty());  // faster
}

// Slower by 20 %, but the repeats of both profiles scatter by more than that: no regression.
TEST(ProfileCompare, InsideTheIntervalIsNoRegression) {
  const auto scattered = [](double scale) {
    auto p = sample(scale);
    for (auto& s : p.communication)
      for (auto& q : s.points)
        for (std::size_t r = 0; r < q.repeats.size(); ++r)
          q.repeats[r] = q.seconds * (0.6 + 0.04 * static_cast<double>(r));
    for (auto& l : p.local) l.repeats = {0.6 * l.value, l.value, 1.4 * l.value};
    return p;
  };
  const auto c = compare(scattered(1), scattered(1.2));
  EXPECT_NEAR(c.changes[0].change, 0.2, 0.01);
  EXPECT_TRUE(regressions(c, 0.05).empty());
}

TEST(ProfileCompare, JudgesTheFit) {
  const auto c = compare(sample(), sample(1.1));
  ASSERT_EQ(c.judgements.size(), 2u);
  EXPECT_NEAR(c.judgements[0].error, 0.1 / 1.1, 0.01);
  EXPECT_NEAR(c.judgements[0].noise, 0.1 / 1.1, 0.01);
  EXPECT_EQ(c.judgements[0].coverage, 0);
  EXPECT_EQ(c.judgements[0].repeats, 120);
  EXPECT_LT(c.judgements[1].error, 0.01);
  EXPECT_GT(c.judgements[1].coverage, 0.85);
}

TEST(ProfileCompare, RefusesStrangers) {
  const auto refused = [](const std::function<void(Profile&)>& change) {
    auto p = sample();
    change(p);
    EXPECT_THROW(compare(sample(), p), base::InputError);
  };
  refused([](Profile& p) { p.ranks = 4; });
  refused([](Profile& p) { p.backend = "nccl"; });
  refused([](Profile& p) { p.device = "H100"; });
  refused([](Profile& p) { p.communication.clear(), p.local.clear(); });
  auto part = sample();
  part.communication.pop_back();
  part.communication[0].points.pop_back();
  const auto c = compare(sample(), part);
  EXPECT_EQ(c.missing.size(), 2u);
}

}  // namespace profile_test
}  // namespace trainyard::plan
