// Tests fits of known times: lines are recovered, changes of protocol are found, noise is not fitted, and intervals
// hold what they promise.
#include "libtrain/plan/links/link_fit.h"
#include "libtrain/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace trainyard::plan {
namespace {

// Gaussian noise around 1, keyed by (run, size, repeat).
double noisy(double share, std::uint64_t run, std::int64_t bytes, int repeat) {
  return std::exp(share *
                  base::normal_value(run, static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(repeat)));
}

std::vector<LinkSamples> samples(const std::function<double(double)>& seconds, double noise, int repeats,
                                 std::uint64_t run = 1) {
  std::vector<LinkSamples> out;
  for (std::int64_t bytes = 8; bytes <= std::int64_t{64} << 20; bytes *= 2) {
    out.push_back({bytes, {}});
    for (int r = 0; r < repeats; ++r)
      out.back().seconds.push_back(seconds(static_cast<double>(bytes)) * noisy(noise, run, bytes, r));
  }
  return out;
}

double line(double bytes) { return 2e-6 + bytes / 4e9; }
// Eager up to 4 KiB, then with a handshake. Beyond 8 MiB the data no longer fits a cache.
double protocols(double bytes) {
  return bytes <= 4096 ? 1e-6 + bytes / 2e9 : bytes <= 8388608 ? 6e-6 + bytes / 10e9 : bytes / 3e9;
}

double mean_error(const LinkFit& fit, const std::vector<LinkSamples>& now) {
  double sum = 0;
  for (const auto& s : now) sum += std::abs(fit.seconds(s.bytes) / base::median(s.seconds) - 1);
  return sum / static_cast<double>(now.size());
}

TEST(LinkFit, OneLineComesBack) {
  const auto fit = fit_link(samples(line, 0, 6));
  ASSERT_EQ(fit.segments.size(), 1u);
  EXPECT_NEAR(fit.segments[0].latency_seconds, 2e-6, 1e-12);
  EXPECT_NEAR(fit.segments[0].seconds_per_byte, 0.25e-9, 1e-16);
  EXPECT_LT(fit.held_out_error, 1e-9);
  EXPECT_NEAR(fit.seconds(1), 2e-6, 1e-9);                              // below the measured sizes
  EXPECT_NEAR(fit.seconds(std::int64_t{1} << 30), line(0x1p30), 1e-6);  // above them
}

TEST(LinkFit, ProtocolsAreFound) {
  const auto fit = fit_link(samples(protocols, 0, 6));
  ASSERT_EQ(fit.segments.size(), 3u);
  EXPECT_GT(fit.segments[1].from_bytes, 4096);
  EXPECT_LE(fit.segments[1].from_bytes, 8192);
  EXPECT_GT(fit.segments[2].from_bytes, 8388608);
  EXPECT_LE(fit.segments[2].from_bytes, 16777216);
  for (const std::int64_t bytes : {8, 3000, 100000, 3000000, 50000000})
    EXPECT_NEAR(fit.seconds(bytes) / protocols(static_cast<double>(bytes)), 1, 1e-6) << bytes;
}

TEST(LinkFit, ALatencyIsNeverNegative) {
  const auto fit = fit_link(samples([](double b) { return b < 1e6 ? b / 1e10 + 1e-9 : b * b / 1e16; }, 0, 6));
  for (const auto& s : fit.segments) {
    EXPECT_GE(s.latency_seconds, 0);
    EXPECT_GE(s.seconds_per_byte, 0);
  }
  for (std::int64_t b = 1; b < 1 << 28; b = b * 3 / 2 + 1) EXPECT_GT(fit.seconds(b), 0) << b;
}

// Noise of 5 %: few segments, and an error on a second run that is near the error of the medians themselves.
TEST(LinkFit, NoiseIsNotChased) {
  for (const auto& truth : {line, protocols}) {
    const auto fit = fit_link(samples(truth, 0.05, 20, 1));
    EXPECT_LE(fit.segments.size(), 6u);
    const auto now = samples(truth, 0.05, 20, 2);
    double noise = 0;
    const auto before = samples(truth, 0.05, 20, 1);
    for (std::size_t i = 0; i < now.size(); ++i)
      noise += std::abs(base::median(now[i].seconds) / base::median(before[i].seconds) - 1) /
               static_cast<double>(now.size());
    EXPECT_LT(mean_error(fit, now), 1.2 * noise);
  }
}

TEST(LinkFit, IntervalsHoldNineRepeatsOfTen) {
  for (const double noise : {0.02, 0.2}) {
    const auto fit = fit_link(samples(protocols, noise, 20, 3));
    int inside = 0, all = 0;
    for (const auto& s : samples(protocols, noise, 200, 4))
      for (const double t : s.seconds) {
        const auto i = fit.interval(s.bytes);
        inside += t >= i.low && t <= i.high, ++all;
      }
    EXPECT_GT(inside, 0.85 * all) << noise;
    EXPECT_LT(inside, 0.95 * all) << noise;
    // So do the intervals of latency and slope, as far as one draw can show: the truth is within their own width.
    const auto& s = fit.segments.front();
    EXPECT_LT(s.latency.low, s.latency.high);
    EXPECT_NEAR(s.latency_seconds, 1e-6, 2 * (s.latency.high - s.latency.low));
  }
}

TEST(LinkFit, FewSizes) {
  EXPECT_NEAR(fit_link({{100, {1e-6, 1.1e-6, 0.9e-6}}}).seconds(100), 1e-6, 1e-12);
  const auto two = fit_link({{100, {1e-6}}, {200, {2e-6}}});
  EXPECT_NEAR(two.seconds(200), 2e-6, 1e-7);
}

TEST(LinkFit, NoiseFloorIsWhatTwoRunsDifferBy) {
  double differ = 0;
  const auto one = samples(line, 0.1, 40, 7), two = samples(line, 0.1, 40, 8);
  for (std::size_t i = 0; i < one.size(); ++i)
    differ +=
        std::abs(base::median(two[i].seconds) / base::median(one[i].seconds) - 1) / static_cast<double>(one.size());
  EXPECT_NEAR(noise_floor(one), differ, 0.5 * differ);
  EXPECT_EQ(noise_floor(samples(line, 0, 10)), 0);
  EXPECT_EQ(noise_floor(samples(line, 0.1, 1)), 0);
}

}  // namespace
}  // namespace trainyard::plan
