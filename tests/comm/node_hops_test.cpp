// Tests that an all-to-all in two hops brings every element where a direct one would, for any nodes and any
// memory layout of the parts. Also that it sends the bytes of two hops. Also that a sum which nodes continue, one after
// the other, is the sum over all ranks.
#include "libtrain/comm/node_hops.h"

#include "libtrain/comm/node_reduction.h"
#include "libtrain/comm/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace trainyard::comm {
namespace {

using base::View;

struct Nodes {
  int nodes, node;
  int ranks() const { return nodes * node; }
};

// The communicators of one rank, and staging of `bytes` for each hop.
struct Hopping {
  Hopping(ThreadsWorld& world, int rank, const Nodes& n, std::size_t bytes) : staging(2 * bytes) {
    std::vector<int> near, far;
    for (int r = 0; r < n.ranks(); ++r) {
      if (r / n.node == rank / n.node) near.push_back(r);
      if (r % n.node == rank % n.node) far.push_back(r);
    }
    inside = world.split(rank, "inside", near), across = world.split(rank, "across", far);
    const auto each = static_cast<std::int64_t>(bytes);
    first = View(staging.data(), base::DType::u8, {each}),
    second = View(staging.data() + bytes, base::DType::u8, {each});
  }
  NodeHops hops() const { return {*inside, *across, first, second}; }
  std::vector<char> staging;
  std::unique_ptr<Communicator> inside, across;
  View first, second;
};

// What `from` sends to `to`: element `at` of part `part`.
std::int32_t value(int from, int to, std::int64_t part, std::int64_t at) {
  return static_cast<std::int32_t>(((from * 64 + to) * 8 + part) * 1000 + at);
}

const std::vector<Nodes> all_nodes{{2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 4}, {1, 3}, {3, 1}};

TEST(NodeHops, BringEveryPartToItsRank) {
  for (const auto& n : all_nodes)
    run_ranks(n.ranks(), [&](int rank, ThreadsWorld& world) {
      constexpr std::int64_t each = 5;
      const std::int64_t count = n.ranks() * each;
      std::vector<std::int32_t> mine(static_cast<std::size_t>(count)), theirs(mine.size(), -1), expected(mine.size());
      for (int r = 0; r < n.ranks(); ++r)
        for (std::int64_t i = 0; i < each; ++i) {
          mine[static_cast<std::size_t>(r * each + i)] = value(rank, r, 0, i);
          expected[static_cast<std::size_t>(r * each + i)] = value(r, rank, 0, i);
        }
      const Hopping h(world, rank, n, mine.size() * 4);
      const auto exec = tensor::Exec::worker("exchange", nullptr);
      for (int twice = 0; twice < 2; ++twice)  // one call after the other over the same staging
        all_to_all(h.hops(), *exec, View::of(mine.data(), {n.ranks(), each}), View::of(theirs.data(), {count}));
      exec->synchronize();
      EXPECT_EQ(theirs, expected) << n.nodes << " nodes of " << n.node << ", rank " << rank;
      const auto sent = [](const Communicator& c) {
        const auto totals = c.ledger().totals();
        return totals.size() == 1 && totals.begin()->first == "all_to_all"
                   ? static_cast<std::int64_t>(totals.begin()->second.sent_bytes)
                   : -1;
      };
      EXPECT_EQ(sent(*h.inside), 2 * count * 4 / n.node * (n.node - 1));
      EXPECT_EQ(sent(*h.across), 2 * count * 4 / n.nodes * (n.nodes - 1));
    });
}

// Parts of three sizes and an empty one, in memory that lies between other memory.
TEST(NodeHops, PartsLieAnywhere) {
  const std::vector<std::int64_t> sizes{3, 7, 0, 1};
  for (const auto& n : all_nodes)
    run_ranks(n.ranks(), [&](int rank, ThreadsWorld& world) {
      std::vector<std::vector<std::int32_t>> mine, theirs, expected;
      for (std::size_t part = 0; part < sizes.size(); ++part)
        for (int r = 0; r < n.ranks(); ++r) {
          const auto p = static_cast<std::int64_t>(part);
          std::vector<std::int32_t> to{-7}, from{-7};
          for (std::int64_t i = 0; i < sizes[part]; ++i)
            to.push_back(value(rank, r, p, i)), from.push_back(value(r, rank, p, i));
          to.push_back(-9), from.push_back(-9);
          mine.push_back(to), expected.push_back(from);
          theirs.emplace_back(from.size(), 0), theirs.back().front() = -7, theirs.back().back() = -9;
        }
      const auto views = [](std::vector<std::vector<std::int32_t>>& all) {
        std::vector<View> out;
        for (auto& one : all) out.push_back(View::of(one.data() + 1, {static_cast<std::int64_t>(one.size()) - 2}));
        return out;
      };
      const Hopping h(world, rank, n, static_cast<std::size_t>(n.ranks()) * 11 * 4);
      const auto exec = tensor::Exec::worker("exchange", nullptr);
      all_to_all(h.hops(), *exec, views(mine), views(theirs));
      exec->synchronize();
      EXPECT_EQ(theirs, expected) << n.nodes << " nodes of " << n.node << ", rank " << rank;
    });
}

// A number of rank `from` for element `at` of all shards, so large or small that the order of additions shows.
float addend(int from, std::int64_t at) {
  return static_cast<float>((from * 7 + at * 3) % 11 - 5) * std::pow(10.0F, static_cast<float>((from + at) % 9 - 4));
}

struct Reduced {
  Nodes nodes;
  int contributors;
  bool continues;
  std::int64_t shard, first, count, piece;
};

// One rank's part: its sum is what a loop over ranks adds up, in its range alone; and it sent so many bytes.
void expect_ordered_sum(ThreadsWorld& world, int rank, const Reduced& r, std::int64_t across_bytes) {
  const int n = r.nodes.ranks();
  std::vector<float> in(static_cast<std::size_t>(n * r.shard)), sum(static_cast<std::size_t>(r.shard)),
      staging(static_cast<std::size_t>((r.nodes.node + 2) * std::min(r.piece, r.count)));
  for (std::int64_t i = 0; i < n * r.shard; ++i) in[static_cast<std::size_t>(i)] = addend(rank, i);
  for (std::int64_t i = 0; i < r.shard; ++i) sum[static_cast<std::size_t>(i)] = addend(99, rank * r.shard + i);
  auto expected = sum;
  for (std::int64_t i = r.first; i < r.first + r.count; ++i) {
    auto& e = expected[static_cast<std::size_t>(i)];
    for (int from = 0; from < r.contributors; ++from) {
      const float a = addend(from, rank * r.shard + i);
      e = from == 0 && !r.continues ? a : e + a;
    }
  }
  const Hopping h(world, rank, r.nodes, 0);
  const auto exec = tensor::Exec::worker("reduce", nullptr);
  const OrderedReduction reduction{
      .in = rank < r.contributors ? View::of(in.data(), {n * r.shard}) : View(in.data(), base::DType::f32, {0}),
      .staging = View::of(staging.data(), {static_cast<std::int64_t>(staging.size())}),
      .sum = View::of(sum.data(), {r.shard}),
      .round = r.continues ? base::ReductionRound::next : base::ReductionRound::first,
      .contributors = r.contributors};
  ordered_reduce_scatter_range({*h.inside, *h.across, r.piece}, *exec, reduction, r.first, r.count);
  exec->synchronize();
  EXPECT_EQ(sum, expected) << r.nodes.nodes << " nodes of " << r.nodes.node << ", rank " << rank << ", "
                           << r.contributors << " contributors, pieces of " << r.piece;
  const auto across = h.across->ledger().totals();
  EXPECT_EQ(static_cast<std::int64_t>(across.at("partial_sums").sent_bytes), across_bytes) << rank;
}

TEST(NodeReduction, AddsInTheOrderOfRanks) {
  for (const auto& n : std::vector<Nodes>{{2, 2}, {2, 3}, {3, 2}, {4, 2}})
    for (const bool continues : {false, true})
      for (int contributors = 1; contributors <= n.ranks(); ++contributors)
        for (const std::int64_t piece : {4, 100}) {
          const Reduced r{n, contributors, continues, 8, 1, 6, piece};
          const int last = (contributors - 1) / n.node;
          run_ranks(n.ranks(), [&](int rank, ThreadsWorld& world) {
            const int node = rank / n.node;
            // A node before the last one sends a sum of every shard on, the last one all sums but its own to their
            // owners. Every node but the first begins with its own sum.
            std::int64_t shards = node < last ? n.nodes : node == last ? n.nodes - 1 : 0;
            if (continues && node > 0) ++shards;
            expect_ordered_sum(world, rank, r, shards * 6 * 4);
          });
        }
}

// The sum may be the owner's own shard of what it contributes.
TEST(NodeReduction, TheSumMayBeAShardOfTheContribution) {
  const Nodes n{3, 2};
  run_ranks(n.ranks(), [&](int rank, ThreadsWorld& world) {
    std::vector<float> in(6 * 4), staging(4 * 3);
    for (std::int64_t i = 0; i < 24; ++i) in[static_cast<std::size_t>(i)] = addend(rank, i);
    const Hopping h(world, rank, n, 0);
    const auto exec = tensor::Exec::worker("reduce", nullptr);
    const auto all = View::of(in.data(), {24});
    ordered_reduce_scatter_range({*h.inside, *h.across, 3}, *exec,
                                 {.in = all,
                                  .staging = View::of(staging.data(), {12}),
                                  .sum = all.elements(rank * 4, 4),
                                  .round = base::ReductionRound::first,
                                  .contributors = 6},
                                 0, 4);
    exec->synchronize();
    for (std::int64_t i = rank * 4; i < rank * 4 + 4; ++i) {
      float expected = addend(0, i);
      for (int from = 1; from < 6; ++from) expected += addend(from, i);
      EXPECT_EQ(in[static_cast<std::size_t>(i)], expected) << rank << " " << i;
    }
  });
}

}  // namespace
}  // namespace trainyard::comm
