// Tests segments: the order in which they are issued, and that a store with divided transfers has the same numbers as
// one with whole transfers.
#include "libtrain/params/transfers.h"
#include "libtrain/comm/segments.h"
#include "libtrain/comm/threads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace trainyard::test {
namespace {

using params::Transfers;

TEST(Transfers, AreIssuedInOrderWhenTheyAreAskedForOrOthersGoBetween) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  std::string issued;
  Transfers transfers(*exec, Transfers::Issue::between);
  const auto add = [&](char name, std::int64_t segments) {
    return transfers.add(segments, [&issued, name](std::int64_t i) { issued += fmt::format("{}{} ", name, i); });
  };
  const auto a = add('a', 3), b = add('b', 20), c = add('c', 1);
  EXPECT_EQ(issued, "") << "nothing goes before somebody else";
  transfers.let_some_follow();  // a quarter of a
  EXPECT_EQ(issued, "a0 ");
  transfers.let_some_follow();
  transfers.let_some_follow();
  EXPECT_EQ(issued, "a0 a1 a2 ");
  transfers.let_some_follow();  // a quarter of b
  EXPECT_EQ(issued, "a0 a1 a2 b0 b1 b2 b3 b4 ");
  transfers.done(a);
  EXPECT_EQ(issued, "a0 a1 a2 b0 b1 b2 b3 b4 ") << "all of it had been issued";
  issued.clear();
  transfers.done(b);
  EXPECT_EQ(issued.substr(0, 6), "b5 b6 ");
  EXPECT_EQ(issued.find('c'), std::string::npos) << "c is behind what was asked for";
  transfers.finish();
  EXPECT_NE(issued.find("c0"), std::string::npos);
  EXPECT_TRUE(transfers.done(c).done());
  issued.clear();
  Transfers at_once(*exec, Transfers::Issue::at_once);
  at_once.add(2, [&](std::int64_t i) { issued += std::to_string(i); });
  EXPECT_EQ(issued, "01");
}

// As after an update, all flat groups of a model wait at once. No tensor-parallel collective waits for more than a
// quarter of the foremost group. Every layer finds its own group issued in full without asking.
TEST(Transfers, GoAtTheForemostsPaceHoweverManyWait) {
  constexpr int flat_groups = 100, crossings = 4;
  for (const std::int64_t segments : {1, 3, 4, 8, 13}) {
    const auto exec = tensor::Exec::caller(nullptr, 1);
    std::int64_t issued = 0;
    Transfers transfers(*exec, Transfers::Issue::between);
    std::vector<Transfers::Ticket> tickets;
    for (int u = 0; u < flat_groups; ++u) tickets.push_back(transfers.add(segments, [&](std::int64_t) { ++issued; }));
    for (int u = 0; u < flat_groups; ++u) {
      for (int crossing = 0; crossing < crossings; ++crossing) {
        const auto before = issued;
        transfers.let_some_follow();
        EXPECT_LE(issued - before, (segments + crossings - 1) / crossings) << "flat group " << u;
      }
      EXPECT_GE(issued, (u + 1) * segments) << "flat group " << u;
      transfers.done(tickets[static_cast<std::size_t>(u)]);
    }
    EXPECT_EQ(issued, flat_groups * segments);
  }
}

TEST(Transfers, ADoneTransferHasRun) {
  const auto exec = tensor::Exec::worker("segments", nullptr);
  Transfers transfers(*exec, Transfers::Issue::between);
  int ran = 0;
  const auto ticket = transfers.add(5, [&](std::int64_t) { exec->run([&ran] { ++ran; }); });
  transfers.done(ticket).wait();
  EXPECT_EQ(ran, 5);
}

// Ranges of any kind together equal the whole: the same bits, and the same bytes in the ledger under the same name.
TEST(Segments, TogetherAreTheWhole) {
  constexpr std::int64_t shard = 1000;
  for (const int ranks : {2, 3, 5})
    for (const int contributors : {1, ranks - 1, ranks}) {
      comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
        const auto whole_group = threads.communicator(rank, "whole"),
                   segmented_group = threads.communicator(rank, "cut");
        const auto exec = tensor::Exec::caller(nullptr, 1);
        std::mt19937_64 random(static_cast<std::uint64_t>(rank));
        std::normal_distribution<float> normal(0, 1);
        std::vector<float> in(static_cast<std::size_t>(ranks * shard)), staging(in.size()), sums[2], all[2];
        for (auto& x : in) x = normal(random);
        for (int segmented = 0; segmented < 2; ++segmented) {
          auto& group = segmented == 0 ? *whole_group : *segmented_group;
          auto& sum = sums[segmented];
          sum.assign(shard, 1.5f);
          all[segmented].assign(in.size(), 0);
          const auto source = rank < contributors ? base::View::of(in.data(), {ranks * shard}) : base::View{};
          const auto total = base::View::of(sum.data(), {shard}),
                     gathered = base::View::of(all[segmented].data(), {ranks * shard});
          for (const auto round : {base::ReductionRound::first, base::ReductionRound::next}) {
            if (segmented == 0) {
              comm::ordered_reduce_scatter(group, *exec,
                                           {.in = source,
                                            .staging = base::View::of(staging.data(), {ranks * shard}),
                                            .sum = total,
                                            .round = round,
                                            .contributors = contributors});
              continue;
            }
            for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 16}, {16, 900}, {916, 84}})
              comm::ordered_reduce_scatter_range(group, *exec,
                                                 {.in = source,
                                                  .staging = base::View::of(staging.data(), {ranks * count}),
                                                  .sum = total,
                                                  .round = round,
                                                  .contributors = contributors},
                                                 first, count);
          }
          if (segmented == 0) group.all_gather(*exec, total, gathered);
          else
            for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 999}, {999, 1}})
              comm::all_gather_range(group, *exec, total, gathered, first, count);
        }
        EXPECT_EQ(std::memcmp(sums[0].data(), sums[1].data(), sums[0].size() * 4), 0) << ranks << " ranks";
        EXPECT_EQ(all[0], all[1]);
        const auto whole = whole_group->ledger().totals(), segmented = segmented_group->ledger().totals();
        for (const char* name : {"all_gather", "ordered_reduce_scatter"})
          EXPECT_EQ(whole.at(name).sent_bytes, segmented.at(name).sent_bytes) << name;
        EXPECT_EQ(segmented.count("exchange"), 0u);
      });
    }
}

}  // namespace
}  // namespace trainyard::test
