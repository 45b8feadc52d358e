// Covering arrays: choices of a level for each of several factors, such that every triple of levels occurs.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
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

using Triple = std::array<int, 6>;  // three factors, and the level of each

template <std::size_t n> std::vector<Triple> triples_of(const Choice<n>& c) {
  std::vector<Triple> out;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      for (std::size_t k = j + 1; k < n; ++k)
        out.push_back({static_cast<int>(i), static_cast<int>(j), static_cast<int>(k), c[i], c[j], c[k]});
  return out;
}

// Greedy: each new choice begins with a triple that no choice has yet. Each other factor takes the level that adds the
// most such triples.
template <std::size_t n> std::vector<Choice<n>> covering_choices(const std::array<int, n>& levels) {
  std::set<Triple> open;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      for (std::size_t k = j + 1; k < n; ++k)
        for (int a = 0; a < levels[i]; ++a)
          for (int b = 0; b < levels[j]; ++b)
            for (int c = 0; c < levels[k]; ++c)
              open.insert({static_cast<int>(i), static_cast<int>(j), static_cast<int>(k), a, b, c});
  std::vector<Choice<n>> out;
  while (!open.empty()) {
    const auto& seed = *open.begin();
    Choice<n> best{};
    std::array<bool, n> decided{};
    for (std::size_t i = 0; i < 3; ++i) {
      best[static_cast<std::size_t>(seed[i])] = seed[i + 3];
      decided[static_cast<std::size_t>(seed[i])] = true;
    }
    const auto fresh = [&](std::size_t thing) {  // open triples of decided factors that contain `thing`
      int count = 0;
      for (const auto& t : triples_of(best)) {
        bool counts = false, all = true;
        for (std::size_t i = 0; i < 3; ++i) {
          counts |= t[i] == static_cast<int>(thing);
          all &= decided[static_cast<std::size_t>(t[i])];
        }
        if (counts && all) count += static_cast<int>(open.count(t));
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
    for (const auto& t : triples_of(best)) open.erase(t);
    out.push_back(best);
  }
  return out;
}

}  // namespace trainyard::testing
