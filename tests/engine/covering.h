// Covering arrays: choices of a level for each of several factors, such that every pair, or every triple, of levels
// occurs.
#pragma once

#include "tests/night.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace trainyard::testing {

template <std::size_t n> using Choice = std::array<int, n>;  // a level of each factor, from 0

template <std::size_t n> std::vector<Choice<n>> all_choices(const std::array<int, n>& levels) {
  std::vector<Choice<n>> out;
  Choice<n> c{};
  while (true) {
    out.push_back(c);
    std::size_t i = 0;
    while (i < n && ++c[i] == levels[i]) c[i++] = 0;
    if (i == n) return out;
  }
}

// The choices that TRAINYARD_TEST_SHARE=I/N names: each N-th one from the I-th on, counted from 0. All choices where
// the variable is not set.
template <std::size_t n> std::vector<Choice<n>> shared_choices(const std::array<int, n>& levels) {
  const auto all = all_choices(levels);
  const char* share = std::getenv("TRAINYARD_TEST_SHARE");
  std::size_t first = 0, step = 1;
  if (share != nullptr && (std::sscanf(share, "%zu/%zu", &first, &step) != 2 || first >= step))
    throw std::invalid_argument("TRAINYARD_TEST_SHARE is I/N, with I from 0 to N - 1");
  std::vector<Choice<n>> out;
  for (auto i = first; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

enum class Strength { pairs, triples };
// Two or three factors, and the level of each. Of two, the third factor is `no_factor`.
using Combination = std::array<std::pair<std::size_t, int>, 3>;
inline constexpr std::pair<std::size_t, int> no_factor{static_cast<std::size_t>(-1), 0};

// Calls use(combination) for each combination of factors, with the levels that level_range(factor) gives.
template <std::size_t n, class Levels, class Use>
void each_combination(Strength strength, const Levels& level_range, const Use& use) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      for (auto [a, end_of_a] = level_range(i); a < end_of_a; ++a)
        for (auto [b, end_of_b] = level_range(j); b < end_of_b; ++b) {
          if (strength == Strength::pairs) use(Combination{{{i, a}, {j, b}, no_factor}});
          else
            for (std::size_t k = j + 1; k < n; ++k)
              for (auto [c, end_of_c] = level_range(k); c < end_of_c; ++c) use(Combination{{{i, a}, {j, b}, {k, c}}});
        }
}

template <std::size_t n> std::vector<Combination> combinations_of(const Choice<n>& choice, Strength strength) {
  std::vector<Combination> out;
  each_combination<n>(
      strength, [&](std::size_t factor) { return std::pair(choice[factor], choice[factor] + 1); },
      [&](const Combination& c) { out.push_back(c); });
  return out;
}

// Greedy: each new choice begins with a combination that no choice has yet. Each other factor takes the level that adds
// the most such combinations.
template <std::size_t n> std::vector<Choice<n>> covering_choices(const std::array<int, n>& levels, Strength strength) {
  std::set<Combination> open;
  each_combination<n>(
      strength, [&](std::size_t factor) { return std::pair(0, levels[factor]); },
      [&](const Combination& c) { open.insert(c); });
  std::vector<Choice<n>> out;
  while (!open.empty()) {
    Choice<n> best{};
    std::array<bool, n> decided{};
    for (const auto& [factor, level] : *open.begin())
      if (factor < n) best[factor] = level, decided[factor] = true;
    const auto fresh = [&](std::size_t thing) {  // open combinations of decided factors that contain `thing`
      int count = 0;
      for (const auto& combination : combinations_of(best, strength)) {
        bool counts = false, all = true;
        for (const auto& [factor, level] : combination)
          counts |= factor == thing, all &= factor >= n || decided[factor];
        if (counts && all) count += static_cast<int>(open.count(combination));
      }
      return count;
    };
    for (std::size_t thing = 0; thing < n; ++thing) {
      if (decided[thing]) continue;
      decided[thing] = true;
      int most = -1, level = 0;
      for (int l = 0; l < levels[thing]; ++l) {
        best[thing] = (l + static_cast<int>(out.size())) % levels[thing];
        if (const int count = fresh(thing); count > most) most = count, level = best[thing];
      }
      best[thing] = level;
    }
    for (const auto& combination : combinations_of(best, strength)) open.erase(combination);
    out.push_back(best);
  }
  return out;
}

// By day the half of a covering array that has most pairs, some four of five, and every level: each time the choice
// with the most pairs that no earlier one has. At night all of the array.
template <std::size_t n> std::vector<Choice<n>> choices_of_pairs(const std::array<int, n>& levels) {
  auto all = covering_choices(levels, Strength::pairs);
  if (at_night()) return all;
  std::set<Combination> had;
  for (std::size_t chosen = 0; chosen < (all.size() + 1) / 2; ++chosen) {
    const auto gain = [&](const Choice<n>& choice) {
      const auto pairs = combinations_of(choice, Strength::pairs);
      return std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return !had.contains(pair); });
    };
    const auto rest = all.begin() + static_cast<std::ptrdiff_t>(chosen);
    std::iter_swap(rest,
                   std::max_element(rest, all.end(), [&](const auto& a, const auto& b) { return gain(a) < gain(b); }));
    for (const auto& pair : combinations_of(all[chosen], Strength::pairs)) had.insert(pair);
  }
  all.resize((all.size() + 1) / 2);
  for (std::size_t factor = 0; factor < n; ++factor)
    for (int level = 0; level < levels[factor]; ++level)
      if (std::none_of(all.begin(), all.end(), [&](const auto& choice) { return choice[factor] == level; }))
        throw std::logic_error("half of the choices lack a level");
  return all;
}

}  // namespace trainyard::testing
