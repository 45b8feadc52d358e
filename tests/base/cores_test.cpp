// The share of a process: its own mask where it is bound, a part of the mask that it holds together with others.
#include "libtrain/base/cores.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace trainyard::base {
namespace {

CoreMask mask(std::uint64_t machine, std::initializer_list<int> cores) {
  CoreMask m;
  m.machine = machine;
  for (const int c : cores) m.cores[static_cast<std::size_t>(c) / 64] |= std::uint64_t{1} << (c % 64);
  return m;
}

std::vector<int> shares(const std::vector<CoreMask>& masks) {
  std::vector<int> all;
  for (std::size_t r = 0; r < masks.size(); ++r) all.push_back(fair_threads(masks, r));
  return all;
}

TEST(cores, a_mask_that_is_bound_is_the_share) {
  EXPECT_EQ(shares({mask(1, {0, 1, 2, 3}), mask(1, {4, 5, 6, 7}), mask(1, {64, 65})}), (std::vector{4, 4, 2}));
}

TEST(cores, a_mask_that_all_hold_is_divided) {
  EXPECT_EQ(shares({mask(1, {0, 1, 2, 3}), mask(1, {0, 1, 2, 3})}), (std::vector{2, 2}));
  EXPECT_EQ(shares({mask(1, {0, 1, 2}), mask(1, {0, 1, 2}), mask(1, {0, 1, 2})}), (std::vector{1, 1, 1}));
  EXPECT_EQ(shares({mask(1, {0}), mask(1, {0})}), (std::vector{1, 1}));
}

TEST(cores, other_machines_take_nothing) {
  EXPECT_EQ(shares({mask(1, {0, 1}), mask(2, {0, 1}), mask(2, {0, 1, 2, 3})}), (std::vector{2, 1, 3}));
}

TEST(cores, this_process_may_use_some) {
  const auto own = own_core_mask();
  EXPECT_GE(fair_threads(std::vector{own}, 0), 1);
  EXPECT_EQ(own_core_mask().machine, own.machine);
}

}  // namespace
}  // namespace trainyard::base
