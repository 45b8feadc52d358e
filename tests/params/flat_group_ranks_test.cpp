// Tests a store whose flat groups belong to different groups of ranks. Each is sharded, gathered and reduced over its
// own group, and the norm counts an element once even if several ranks hold it.
#include "kernels/cast/cast.h"
#include "kernels/square_sum/square_sum.h"
#include "libtrain/comm/threads.h"
#include "libtrain/params/zero_store.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/cost/states.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace trainyard {
namespace {

using plan::Axes;
using plan::Axis;
using tensor::Category;

// The head is shared by all four ranks, every other flat group by the two data-parallel ranks; both context coordinates
// hold copies of the latter.
struct WideHead : plan::HeadKind {
  std::vector<plan::FlatGroup> flat_groups(const plan::ModelConfig& m, std::int64_t index) const override {
    auto all = HeadKind::flat_groups(m, index);
    all.front().group = {Axis::data, Axis::context};
    return all;
  }
};

const std::vector<Axes> used{Axes{Axis::data}, Axes{Axis::data, Axis::context}, Axes{Axis::tensor}};

plan::ModelConfig model() {
  auto m = plan::preset("llama-nano");
  m.vocabulary = 256;
  return m;
}

// One rank: its arenas, of the planned sizes, and its store.
struct Rank {
  Rank(comm::World& world, int zero, std::int64_t micros = 4)
      : set(model(), world.topology), shape{zero,
                                            base::DType::f32,
                                            base::DType::f32,
                                            {micros, 1, 1, world.topology.size(Axis::data)},
                                            2,
                                            world.topology},
        bytes(plan::state_bytes(set.table, shape)), accesses(plan::training_accesses(model())),
        leases(plan::leases_of(accesses)) {}

  plan::FlatGroupSet set;
  plan::StateShape shape;
  plan::StateBytes bytes;
  std::vector<plan::Access> accesses;
  std::vector<plan::Occurrence> leases;
  tensor::Arena parameters{Category::parameters, bytes.parameters},
      gathered{Category::gathered_weights, bytes.gathered_weights}, gradients{Category::gradients, bytes.gradients},
      micro_batch_gradients{Category::micro_batch_gradients, bytes.micro_batch_gradients},
      optimizer{Category::optimizer, bytes.optimizer},
      staging{Category::communication_staging, bytes.communication_staging};
  std::unique_ptr<tensor::Exec> compute = tensor::Exec::caller(nullptr, 1),
                                communication = tensor::Exec::worker("communication", nullptr);
};

params::StoreContext context_of(Rank& r, comm::World& world) {
  return {{world, *r.compute, world.size == 1 ? *r.compute : *r.communication},
          r.set,
          r.shape,
          plan::Reduction::fast,
          {r.parameters, r.gathered, r.gradients, r.micro_batch_gradients, r.optimizer, r.staging}};
}

// The weights of every flat group, as its first lease returns them.
std::vector<std::vector<float>> weights_of(Rank& r, params::ZeroStore& store) {
  std::vector<std::vector<float>> out(r.set.flat_groups.size());
  store.begin_step({{r.leases}, {0}});
  for (const auto occurrence : r.leases) {
    const auto lease = store.lease(occurrence);
    auto& values = out[static_cast<std::size_t>(occurrence.flat_group)];
    if (!values.empty()) continue;
    for (std::size_t slot = 0;
         slot < r.set.flat_groups[static_cast<std::size_t>(occurrence.flat_group)].parameters.size(); ++slot) {
      const auto view = lease.weight(static_cast<int>(slot));
      values.insert(values.end(), view.ptr<float>(), view.ptr<float>() + view.count());
    }
  }
  return out;
}

// Every gradient of one accumulation step is the same number.
void commit_all(Rank& r, params::ZeroStore& store, std::int64_t round, double value) {
  store.begin_step({{r.leases}, {0}});
  store.begin_backward({round, params::GradientReduction::Position::Place::only});
  for (const auto& access : r.accesses) {
    if (access.kind == plan::Access::Kind::lease) {
      const auto lease = store.lease(access.occurrence);
      continue;
    }
    auto grads = store.grads(access.occurrence);
    for (std::size_t slot = 0;
         slot < r.set.flat_groups[static_cast<std::size_t>(access.occurrence.flat_group)].parameters.size(); ++slot)
      kernels::fill(*r.compute, grads.gradient(static_cast<int>(slot)), value);
    grads.commit();
  }
}

class RanksOfAFlatGroup : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { plan::register_block("head", std::make_shared<WideHead>()); }
  void TearDown() override { plan::register_block("head", std::make_shared<plan::HeadKind>()); }
};

TEST_P(RanksOfAFlatGroup, EachIsReducedAndGatheredOverItsOwn) {
  comm::World alone("solo", 0, plan::Topology(), {}, used);
  Rank whole(alone, 0);
  auto its_context = context_of(whole, alone);
  params::ZeroStore its_store(its_context);
  its_store.initialize(7);
  const auto expected = weights_of(whole, its_store);
  std::int64_t elements = 0, of_head = 0;
  for (const auto& flat_group : whole.set.flat_groups)
    for (const auto& p : flat_group.parameters) (flat_group.name == "head" ? of_head : elements) += p.count();

  comm::run_ranks(4, [&](int rank, comm::ThreadsWorld& threads) {
    comm::World world("threads", rank, plan::Topology({{Axis::data, 2}, {Axis::context, 2}}), threads.factory(rank),
                      used);
    Rank r(world, GetParam());
    auto context = context_of(r, world);
    params::ZeroStore store(context);
    store.initialize(7);
    EXPECT_EQ(weights_of(r, store), expected);  // gathered from shards that each rank made alone

    for (std::int64_t round : {0, 1}) commit_all(r, store, round, 1 + rank + 10.0 * static_cast<double>(round));
    store.finish();
    const auto sum = [&](int flat_group) {
      return flat_group + 1 == context.flat_groups() ? 60.0f : rank % 2 == 0 ? 28.0f : 32.0f;
    };  // the sum over its group and both accumulation steps
    for (int u = 0; u < context.flat_groups(); ++u) {
      const auto shard = store.shard_gradient(u);
      EXPECT_EQ(shard.count(), context.layout(u).padded / (u + 1 == context.flat_groups() ? 4 : 2));
      EXPECT_EQ(shard.ptr<float>()[0], sum(u)) << "flat group " << u;
    }

    // Here gradients differ along the context axis only to show whose gradients count: those of the first rank.
    kernels::FixedPointSum squares;
    for (const auto& view : store.counted_gradients()) kernels::square_sum(*r.compute, view, squares);
    world.control->all_reduce(*r.compute,
                              base::View::of(squares.limbs.data(), {static_cast<std::int64_t>(squares.limbs.size())}),
                              comm::Reduction::sum);
    EXPECT_EQ(kernels::value(squares),
              static_cast<double>(elements) * 28 * 28 + static_cast<double>(of_head) * 60 * 60);

    kernels::AdamW rule;
    rule.learning_rate = 0.01f;
    store.update(rule);
    const auto updated = weights_of(r, store);
    for (std::size_t u = 0; u < updated.size(); ++u) {
      EXPECT_NE(updated[u], expected[u]);
      double most = 0;
      for (const auto w : updated[u]) most += std::abs(w);
      double least = most;
      auto& group = context.group(static_cast<int>(u));
      group.all_reduce(*r.compute, base::View::of(&most, {1}), comm::Reduction::max);
      group.all_reduce(*r.compute, base::View::of(&least, {1}), comm::Reduction::min);
      EXPECT_EQ(most, least) << "flat group " << u << " is not the same on all ranks of its group";
    }
    r.communication->synchronize();
  });
}

// Three axes: the head's gradients are added over data and context, in the order of the data coordinate, and the other
// flat groups' over data alone; tensor-parallel ranks hold other parts. `context` may be the outer or the inner axis.
TEST_P(RanksOfAFlatGroup, AreReducedInOrderAlongThreeAxes) {
  using Sizes = std::vector<plan::AxisSize>;
  for (const auto& sizes : {Sizes{{Axis::data, 2}, {Axis::context, 2}, {Axis::tensor, 2}},
                            Sizes{{Axis::context, 2}, {Axis::data, 2}, {Axis::tensor, 2}}}) {
    const plan::Topology topology(sizes);
    comm::run_ranks(8, [&](int rank, comm::ThreadsWorld& threads) {
      comm::World world("threads", rank, topology, threads.factory(rank), used);
      Rank r(world, GetParam(), 3);  // three micro-batches: in the second step the second data coordinate has none
      auto context = context_of(r, world);
      context.reduction = plan::Reduction::ordered;
      params::ZeroStore store(context);
      store.initialize(7);
      const int data = topology.coordinate(rank, Axis::data), part = topology.coordinate(rank, Axis::context);
      const auto value = [](int data_rank, int part_of_micro, int round) {  // rounds differently in another order
        return std::array{1e8, 3.0, -1e8, 5.0}[static_cast<std::size_t>(2 * data_rank + part_of_micro)] + round;
      };
      commit_all(r, store, 0, value(data, part, 0));
      if (data == 0) {
        commit_all(r, store, 1, value(data, part, 1));
      } else {
        store.begin_step({{r.leases}, {0}});
        store.idle(r.accesses, {1, params::GradientReduction::Position::Place::only});
      }
      store.finish();
      for (int u = 0; u < context.flat_groups(); ++u) {
        const bool head = u + 1 == context.flat_groups();
        float expected = 0;
        for (int round = 0; round < 2; ++round)
          for (int d = 0; d < (round == 0 ? 2 : 1); ++d)
            for (int c = head ? 0 : part; c < (head ? 2 : part + 1); ++c)
              expected += static_cast<float>(value(d, c, round));
        EXPECT_EQ(store.shard_gradient(u).ptr<float>()[0], expected) << "flat group " << u << ", rank " << rank;
      }
      r.communication->synchronize();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, RanksOfAFlatGroup, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace trainyard
