// Tests the cores of a process: all of its mask if no other process has it, otherwise a part of the shared mask.
#include "libtrain/base/cores.h"

#include <gtest/gtest.h>

#include <cstdlib>
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

TEST(cores, a_quota_is_divided_among_those_that_share_it) {
  const auto with = [](double quota, std::uint64_t group, std::uint64_t machine = 1) {
    auto m = mask(machine, {0, 1, 2, 3, 4, 5, 6, 7});
    m.quota = quota, m.quota_group = group;
    return m;
  };
  EXPECT_EQ(shares({with(3, 5)}), std::vector{3});
  EXPECT_EQ(shares({with(1.5, 5)}), std::vector{1});
  EXPECT_EQ(shares({with(0.5, 5)}), std::vector{1});
  EXPECT_EQ(shares({with(16, 5)}), std::vector{8});
  EXPECT_EQ(shares({with(6, 5), with(6, 5), with(6, 5)}), (std::vector{2, 2, 2}));
  EXPECT_EQ(shares({with(3, 5), with(3, 5), with(3, 5)}), (std::vector{1, 1, 1}));  // by cores alone: two each
  EXPECT_EQ(shares({with(2, 5), with(3, 6)}), (std::vector{2, 3}));                 // one container each
  EXPECT_EQ(shares({with(4, 5), with(4, 5, 2)}), (std::vector{4, 4}));              // different machines
  EXPECT_EQ(shares({with(2, 5), mask(1, {0, 1, 2, 3, 4, 5, 6, 7})}), (std::vector{2, 4}));
}

TEST(cores, the_environment_says_how_many_threads_a_team_has) {
  const auto by = [](const char* text) {
    setenv("OMP_NUM_THREADS", text, 1);
    return team_threads(0, 5);
  };
  EXPECT_EQ(by("3"), 3);
  EXPECT_EQ(by("3,2"), 3);
  EXPECT_EQ(by(" 3 "), 3);
  for (const auto* text : {"", "0", "-2", "many", "3x", "99999999999999999999"}) EXPECT_EQ(by(text), 5) << text;
  setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_EQ(team_threads(7, 5), 7);
  EXPECT_EQ(threads_or_all(7), 7);
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(team_threads(0, 5), 5);
}

TEST(cores, this_process_may_use_some) {
  const auto own = own_core_mask();
  EXPECT_GE(fair_threads(std::vector{own}, 0), 1);
  EXPECT_EQ(own_core_mask().machine, own.machine);
}

}  // namespace
}  // namespace trainyard::base
