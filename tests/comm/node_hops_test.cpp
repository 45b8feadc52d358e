// Tests that an all-to-all in two hops brings every element where a direct one would, for any nodes and any
// memory layout of the parts. Also that it sends the bytes of two hops.
#include "libtrain/comm/node_hops.h"

#include "libtrain/comm/threads.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trainyard::comm
