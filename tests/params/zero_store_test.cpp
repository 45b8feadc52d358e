// Compares whole training steps of ZeroStore with the plain model: what leases see, what updates leave, what was sent,
// and what lies between parameters.
#include "libtrain/params/zero_store.h"
#include "kernels/square_sum/square_sum.h"
#include "libtrain/base/random.h"
#include "tests/params/adamw_rule.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard::test {
namespace zero_store_test {

using params::ZeroStore;
using Place = params::GradientReduction::Position::Place;

constexpr PlainAdamW plain_hyper{0.02f, 0.9f, 0.999f, 1e-8f, 0.05f, 0.5f, 0.1, 0.001};
kernels::AdamW hyper() { return rule_of(plain_hyper); }

// Initial values, drawn for each parameter by its name, over its logical shape.
void initialize(PlainModel& plain, const std::vector<plan::FlatGroup>& flat_groups, std::uint64_t seed) {
  for (std::size_t u = 0; u < flat_groups.size(); ++u)
    for (std::size_t p = 0; p < flat_groups[u].parameters.size(); ++p) {
      const auto& parameter = flat_groups[u].parameters[p];
      std::int64_t count = 1;
      for (auto n : parameter.shape) count *= n;
      Floats values(static_cast<std::size_t>(count), parameter.init.kind == plan::Init::Kind::ones ? 1.0f : 0.0f);
      if (parameter.init.kind == plan::Init::Kind::normal)
        base::fill_normal(values.data(), count, seed, parameter.name, 0, parameter.init.stddev);
      std::copy(values.begin(), values.end(), plain.flat_groups[u].weight.begin() + plain.flat_groups[u].offsets[p]);
    }
}

void expect_weights(const params::Lease& lease, const Ground& g, const Floats& flat_group, const PlainPart& part,
                    plan::Occurrence occurrence) {
  for (std::size_t p = 0; p < g.context.flat_group(occurrence.flat_group).parameters.size(); ++p)
    EXPECT_EQ(difference(lease.weight(static_cast<int>(p)), flat_group, part.offset(occurrence.flat_group, p)), "")
        << g.layout.text() << " flat group " << occurrence.flat_group << " parameter " << p;
}

struct Training {
  explicit Training(Ground& ground)
      : g(ground), plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks),
        part(g.set.flat_groups, plain, g.layout.ranks, g.layout.tensor, g.world.rank % g.layout.tensor),
        accesses(plan::training_accesses(g.model)), store(g.context) {}

  void micro(std::int64_t step, std::int64_t micro, params::GradientReduction::Position position) {
    store.begin_backward(position);
    for (const auto& access : accesses) {
      if (access.kind == plan::Access::Kind::lease) {
        const auto lease = store.lease(access.occurrence);
        expect_weights(lease, g, held(access.occurrence.flat_group), part, access.occurrence);
        continue;
      }
      auto grads = store.grads(access.occurrence);
      // Writes what a block writes: every element of every parameter, zeros beyond the vocabulary, never the gaps.
      const auto gradient =
          part.of(access.occurrence.flat_group, plain.gradient(kind(), step, micro, access.occurrence));
      for (std::size_t p = 0; p < g.context.flat_group(access.occurrence.flat_group).parameters.size(); ++p)
        fill(grads.gradient(static_cast<int>(p)), gradient, part.offset(access.occurrence.flat_group, p));
      grads.commit();
    }
  }

  void step(std::int64_t step) {
    const auto groups = g.layout.micros / g.layout.local_accumulation,
               rounds = (groups + g.layout.ranks - 1) / g.layout.ranks;
    store.begin_step({{plan::leases_of(accesses)},
                      std::vector<std::uint32_t>(static_cast<std::size_t>(rounds * g.layout.local_accumulation), 0)});
    for (std::int64_t round = 0; round < rounds; ++round) {
      const auto group = round * g.layout.ranks + g.rank();
      for (std::int64_t k = 0; k < g.layout.local_accumulation; ++k) {
        const params::GradientReduction::Position position{round, g.layout.local_accumulation == 1 ? Place::only
                                                                  : k == 0                         ? Place::first
                                                                  : k + 1 == g.layout.local_accumulation
                                                                      ? Place::last
                                                                      : Place::middle};
        if (group >= groups) store.idle(accesses, position);
        else micro(step, group * g.layout.local_accumulation + k, position);
      }
    }
    store.finish();
    const auto reduced = plain.reduced(kind(), step, g.layout.micros, g.layout.local_accumulation, g.layout.sums);
    for (int u = 0; u < g.flat_groups(); ++u) {
      const auto shard = store.shard_gradient(u);
      EXPECT_EQ(difference(shard, part.of(u, reduced[static_cast<std::size_t>(u)]), g.rank() * shard.count()), "")
          << g.layout.text() << " gradient of flat group " << u;
    }
    expect_norm(reduced);
    store.update(hyper());
    plain.update(reduced, plain_hyper);
  }

  void evaluate() {
    const auto order = plan::leases_of(plan::evaluation_accesses(g.model));
    store.begin_evaluation(order);
    for (const auto occurrence : order)
      expect_weights(store.lease(occurrence), g, held(occurrence.flat_group), part, occurrence);
  }

  // The ranks together count every element of the logical parameters once.
  void expect_norm(const std::vector<Floats>& reduced) {
    kernels::FixedPointSum counted, expected;
    for (const auto& view : store.counted_gradients()) kernels::square_sum(*g.compute, view, counted);
    const auto limbs = base::View::of(counted.limbs.data(), {static_cast<std::int64_t>(counted.limbs.size())});
    g.world.control->all_reduce(g.context.communication, limbs, comm::Reduction::sum);
    g.context.communication.synchronize();
    for (const auto& flat_group : reduced)
      kernels::square_sum(*g.compute, base::View::of(flat_group.data(), {static_cast<std::int64_t>(flat_group.size())}),
                          expected);
    EXPECT_EQ(kernels::value(counted), kernels::value(expected)) << g.layout.text();
  }

  Floats held(int flat_group) const { return part.of(flat_group, plain.flat_group(flat_group).weight); }

  Values kind() const { return g.layout.reduction == Reduction::fast ? Values::integers : Values::scattered; }

  Ground& g;
  PlainModel plain;
  PlainPart part;
  std::vector<plan::Access> accesses;
  std::vector<plan::Occurrence> leases;
  ZeroStore store;
};

// What this rank's ledger counts beyond `before` equals what the plan announced for a step.
void expect_announced_traffic(const Training& run, const std::map<std::string, comm::Traffic>& before) {
  auto after = run.g.data.ledger().totals();
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> sent, announced;
  for (const auto& [operation, t] : after) {
    const auto was = before.count(operation) ? before.at(operation) : comm::Traffic{};
    if (t.calls > was.calls)
      sent[operation] = {static_cast<std::int64_t>(t.calls - was.calls),
                         static_cast<std::int64_t>(t.sent_bytes - was.sent_bytes)};
  }
  const auto& layout = run.g.layout;
  const auto kind = layout.reduction == Reduction::fast ? plan::Reduction::fast : plan::Reduction::ordered;
  for (const auto& t : plan::step_traffic(run.g.model, layout.shape(), kind, run.g.rank(), run.g.context.segment_bytes))
    announced[t.operation] = {t.calls, t.bytes};
  if (layout.ranks == 1) {  // nothing is sent; calls without work are left out
    for (const auto& [operation, calls_and_bytes] : sent)
      EXPECT_EQ(calls_and_bytes.second, 0) << layout.text() << " " << operation;
    return;
  }
  EXPECT_EQ(sent, announced) << layout.text() << " rank " << run.g.rank();
}

void expect_plain_training(const plan::ModelConfig& model, const ParallelLayout& layout,
                           std::chrono::microseconds late = {}, std::int64_t segment_bytes = plan::segment_bytes) {
  on_ranks(
      model, layout,
      [segment_bytes](Ground& g) {
        g.context.segment_bytes = segment_bytes;
        Training run(g);
        EXPECT_TRUE(
            g.full({&g.parameters, &g.gathered, &g.gradients, &g.micro_batch_gradients, &g.optimizer, &g.staging}))
            << g.layout.text();
        run.store.initialize(11);
        initialize(run.plain, g.set.flat_groups, 11);
        run.evaluate();
        for (std::int64_t step = 0; step < 3; ++step) {
          g.context.communication.synchronize();
          const auto before = g.data.ledger().totals();
          run.step(step);
          run.store.complete_weights();
          g.context.communication.synchronize();
          expect_announced_traffic(run, before);
          if (step == 1) run.evaluate();
        }
        for (int u = 0; u < g.flat_groups(); ++u) {
          const auto master = run.store.states().master_shard(u), v = run.store.states().state_shard(1, u);
          const auto first = g.rank() * master.count();
          EXPECT_EQ(difference(master, run.held(u), first), "") << g.layout.text() << " flat group " << u;
          EXPECT_EQ(difference(v, run.part.of(u, run.plain.flat_group(u).v), first), "")
              << g.layout.text() << " v of flat group " << u;
        }
      },
      late);
}

class Steps : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(zero, Steps, testing::Range(0, 4));

TEST_P(Steps, ArePlainOnes) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const auto working : {base::DType::f32, base::DType::bf16})
      for (const std::int64_t local_accumulation : {1, 3})
        for (const std::int64_t groups : {ranks, 2 * ranks + 1})
          for (const int slots : {1, 2, 9})
            expect_plain_training(tied_model(),
                                  {ranks, GetParam(), working, groups * local_accumulation, local_accumulation, slots});
}

// Sums are rounded after their last addition: of micro-batches, ranks and uses of a tied table.
TEST_P(Steps, RoundTheirSumsOnce) {
  const auto expect = [](const plan::ModelConfig& model, ParallelLayout layout) {
    layout.sums = base::DType::bf16;
    expect_plain_training(model, layout);
  };
  const auto zero = GetParam();
  const auto tied = tied_model(), heads = tied_model_of_heads(), untied = untied_model_of_heads();
  expect(tied, {1, zero, base::DType::f32, 2, 1, 2});
  expect(tied, {2, zero, base::DType::bf16, 5, 1, 2});
  expect(tied, {3, zero, base::DType::f32, 4, 2, 2});
  expect(untied, {2, zero, base::DType::f32, 6, 2, 2, Reduction::fast});
  expect(heads, {2, zero, base::DType::f32, 3, 1, 2, Reduction::ordered, 2});
  expect(untied, {3, zero, base::DType::bf16, 4, 1, 2, Reduction::ordered, 2});
}

TEST_P(Steps, OfTheFastReductionAreToo) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const std::int64_t local_accumulation : {1, 2})
      expect_plain_training(untied_model(), {ranks, GetParam(), base::DType::bf16, (ranks + 1) * local_accumulation,
                                             local_accumulation, 2, Reduction::fast});
}

// Tensor-parallel ranks: each holds its slices of what the plain model holds, beginning with the initial values.
TEST_P(Steps, OfTensorRanksAreSlicesOfPlainOnes) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const int tensor : {2, 4})
      for (const int ranks : {1, 2, 3})
        for (const auto working : {base::DType::f32, base::DType::bf16}) {
          ParallelLayout layout{ranks, GetParam(), working, 2 * ranks + 1, 1, 2};
          layout.tensor = tensor;
          for (const std::int64_t segment_bytes : {plan::segment_bytes, std::int64_t{777}})
            expect_plain_training(model, layout, {}, segment_bytes);
        }
}

// Beyond 16 ranks the segments grow with them (plan::transfer_segments).
TEST(ZeroStore, OfManyTensorRanksSendsLargerSegments) {
  ParallelLayout layout{18, 3, base::DType::bf16, 19, 1, 2};
  layout.tensor = 2;
  expect_plain_training(tied_model_of_heads(), layout, {}, 512);
}

// Collectives begin late: nothing is read before it has arrived, and nothing is overwritten while it is needed.
TEST_P(Steps, DoNotDependOnWhenACollectiveRuns) {
  for (const int slots : {1, 2})
    for (const auto reduction : {Reduction::ordered, Reduction::fast})
      expect_plain_training(tied_model(), {2, GetParam(), base::DType::f32, 3, 1, slots, reduction},
                            std::chrono::microseconds(300));
}

// Norms and shards see zeros between and behind parameters. The buffers held other values before, and blocks write only
// the parameters.
TEST_P(Steps, LeaveZerosBetweenParameters) {
  on_ranks(tied_model(), {2, GetParam(), base::DType::f32, 5}, [](Ground& g) {
    Training run(g);
    run.store.initialize(3);
    initialize(run.plain, g.set.flat_groups, 3);
    run.step(0);
    std::int64_t between = 0;
    for (int u = 0; u < g.flat_groups(); ++u) {
      const auto gradient = run.store.shard_gradient(u), weight = run.store.states().master_shard(u),
                 m = run.store.states().state_shard(0, u);
      for (std::int64_t i = 0; i < gradient.count(); ++i) {
        if (run.plain.flat_group(u).live[static_cast<std::size_t>(g.rank() * gradient.count() + i)]) continue;
        ++between;
        ASSERT_EQ(gradient.ptr<float>()[i], 0) << "flat group " << u;
        ASSERT_EQ(weight.ptr<float>()[i], 0) << "flat group " << u;
        ASSERT_EQ(m.ptr<float>()[i], 0) << "flat group " << u;
      }
    }
    EXPECT_GT(between, 0);
  });
}

}  // namespace zero_store_test
}  // namespace trainyard::test
