// Promise 2 (libtrain/README.md) over a covering array: in any parallel layout, a run has the bits of one rank. It
// takes the predicted memory and sends the predicted bytes.
#pragma once

#include "tests/engine/covering.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainyard::testing {

inline std::string text_of(const ParallelLayout& c) {
  return fmt::format("{} ranks of {} threads, tensor {}{}, {} stages of {} chunks by {}, ZeRO {}, {}, recompute {}",
                     c.ranks, c.threads, c.tensor, c.sequence_parallel ? " with rows" : "", c.pipeline,
                     c.virtual_stages, c.schedule, c.zero, c.dtype, c.recompute);
}

// Level 1 has layers of all three forms, where a rank has as many.
inline const char* recomputation_of_level(int level) {
  constexpr std::array<const char*, 3> forms = {"none", "full:0.4,selective:0.4", "full"};
  return forms[static_cast<std::size_t>(level)];
}

// Level 0: one rank has every layer; 1: two tensor-parallel ranks; 2: with sequence parallelism, too.
inline void share_layers(ParallelLayout& layout, int level) {
  layout.tensor = level == 0 ? 1 : 2, layout.sequence_parallel = level == 2;
}

// Level 0: one pipeline stage; 1: two; 2: two stages of two virtual stages each; 3: two with the zero-bubble schedule.
// That schedule computes weight gradients apart, so it excludes recomputation.
inline void put_into_stages(ParallelLayout& layout, int level) {
  layout.pipeline = level == 0 ? 1 : 2;
  if (level == 2) layout.schedule = "interleaved", layout.virtual_stages = 2;
  if (level == 3) layout.schedule = "zero-bubble", layout.recompute = "none";
}
// The first six factors of a choice: tensor and sequence parallelism, pipeline stages and schedule, ZeRO stage,
// data-parallel degree, threads, recomputation.
template <std::size_t n> ParallelLayout layout_of_six(const Choice<n>& c) {
  ParallelLayout layout;
  share_layers(layout, c[0]);
  put_into_stages(layout, c[1]);
  layout.zero = c[2];
  layout.ranks = (c[3] + 1) * layout.tensor * layout.pipeline;
  layout.threads = 1 + c[4];
  layout.recompute = recomputation_of_level(c[5]);
  return layout;
}

template <std::size_t n> struct LayoutChoices {
  std::array<int, n> levels;
  std::function<ParallelLayout(const Choice<n>& choice)> layout;
  std::function<engine::RunConfig(SmallRun& runs, const Choice<n>& choice, const std::string& output)> config;
  std::vector<std::size_t> numerics;  // factors whose level changes the numbers, beside the layout's dtype
  std::function<std::string(SmallRun& runs, const engine::RunConfig& c, const engine::RunResult& r)> bits =
      [](SmallRun& runs, const engine::RunConfig& c, const engine::RunResult& r) { return runs.bits(c, r); };
};

// Expects the bits of one rank from every choice. Returns these bits by dtype and the levels of `numerics`.
template <std::size_t n>
std::map<std::string, std::string> expect_bits_of_one_rank(SmallRun& runs, const LayoutChoices<n>& t,
                                                           const std::vector<Choice<n>>& choices) {
  std::map<std::string, std::string> expected;
  int number = 0;
  for (const auto& choice : choices) {
    const auto layout = t.layout(choice);
    auto key = layout.dtype;
    for (const auto thing : t.numerics) key += fmt::format(", {} of {}", choice[thing], thing);
    auto& want = expected[key];
    if (want.empty()) {
      auto c = t.config(runs, choice, fmt::format("one-{}", number));
      want = t.bits(runs, c, runs.run(c, {1, 0, 1, layout.dtype}));
      expect_no_difference(runs.reports(), "one rank");
    }
    auto c = t.config(runs, choice, fmt::format("cut-{}", number));
    const auto text = fmt::format("{}; {}", text_of(layout), key);
    EXPECT_EQ(t.bits(runs, c, runs.run(c, layout)), want) << text;
    expect_no_difference(runs.reports(), text);
    std::filesystem::remove_all(c.output);
    ++number;
  }
  return expected;
}

template <std::size_t n>
std::map<std::string, std::string> expect_every(Strength strength, SmallRun& runs, const LayoutChoices<n>& t) {
  return expect_bits_of_one_rank(
      runs, t, strength == Strength::pairs ? choices_of_pairs(t.levels) : covering_choices(t.levels, strength));
}

}  // namespace trainyard::testing
