// Tests worlds made from a topology: who is in which group, and that a group of one rank makes no communicator.
#include "libtrain/comm/world.h"
#include "libtrain/comm/threads.h"

#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>

namespace trainyard::comm {
namespace {

using plan::Axes;
using plan::Axis;

// The sum of the ranks' numbers over a group.
std::int64_t sum(Communicator& group, std::int64_t mine) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  group.all_reduce(*exec, base::View::of(&mine, {1}), Reduction::sum);
  return mine;
}

TEST(World, GroupsAreThoseOfTheTopology) {
  const plan::Topology topology({{Axis::data, 2}, {Axis::context, 1}, {Axis::tensor, 2}});
  run_ranks(4, [&](int rank, ThreadsWorld& threads) {
    std::vector<std::string> asked;
    const auto factory = [&](const std::string& name, const std::vector<int>& ranks) {
      asked.push_back(name);
      return threads.split(rank, name, ranks);
    };
    World world("threads", rank, topology, factory,
                {Axes{Axis::data}, Axes{Axis::context}, Axes{Axis::data, Axis::tensor}, Axes{Axis::tensor}});
    EXPECT_EQ(asked, (std::vector<std::string>{"control", "data", "data+tensor",
                                               "tensor"}));  // on every rank in this order; not for one rank alone
    EXPECT_EQ(world.size, 4);
    EXPECT_EQ(sum(*world.control, rank), 6);
    EXPECT_EQ(sum(world.group({Axis::data}), rank), rank % 2 == 0 ? 0 + 2 : 1 + 3);
    EXPECT_EQ(sum(world.group({Axis::tensor}), rank), rank < 2 ? 0 + 1 : 2 + 3);
    EXPECT_EQ(sum(world.group({Axis::tensor, Axis::data}), rank), 6);
    EXPECT_EQ(world.group({Axis::context}).size(), 1);
    EXPECT_EQ(sum(world.group({Axis::context}), rank), rank);
    EXPECT_EQ(world.group({Axis::data}).rank(), topology.coordinate(rank, Axis::data));
    EXPECT_EQ(world.group({Axis::data}).group(), "data");
    EXPECT_THROW(world.group({Axis::pipe}), std::logic_error);
  });
}

TEST(World, OneRankAsksNobody) {
  const auto nobody = [](const std::string& name, const std::vector<int>&) -> std::unique_ptr<Communicator> {
    throw std::runtime_error(name);
  };
  const World world("mpi", 0, plan::Topology({{Axis::data, 1}}), nobody, {Axes{Axis::data}});
  EXPECT_EQ(world.groups().size(), 1u);
  EXPECT_EQ(sum(world.group({Axis::data}), 5), 5);
  EXPECT_EQ(sum(*world.control, 5), 5);
}

TEST(World, GroupsAreReplacedInTheirOrder) {
  World world("solo", 0, plan::Topology(), {}, {Axes{Axis::data}, Axes{Axis::expert}});
  std::string seen;
  world.replace_groups([&](auto group) {
    seen += group->group() + " ";
    return group;
  });
  EXPECT_EQ(seen, "data expert ");
  EXPECT_EQ(world.group({Axis::expert}).group(), "expert");
}

}  // namespace
}  // namespace trainyard::comm
