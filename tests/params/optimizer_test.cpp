// Tests OptimizerStates: master weights and moments after updates and loads, element by element, at every ZeRO stage
// and in every dtype of working copies.
#include "libtrain/params/optimizer.h"
#include "tests/params/adamw_rule.h"
#include "tests/params/ground.h"
#include "tests/params/kept_masters.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

#include <bit>

namespace trainyard::test {
namespace {

constexpr PlainAdamW plain_hyper{0.01f, 0.9f, 0.95f, 1e-6f, 0.1f, 0.25f, 0.1, 0.05};
kernels::AdamW hyper() { return rule_of(plain_hyper); }

struct Parts {
  explicit Parts(Ground& g)
      : weights(g.layout.zero == 3 ? params::make_gathered_weights(g.context) : params::make_whole_weights(g.context)),
        gradients(g.context), states(g.context, *weights) {}
  std::unique_ptr<params::Weights> weights;
  params::GradientReduction gradients;
  params::OptimizerStates states;
};

// Loads as from a checkpoint: every rank its own shards.
void load(Parts& parts, const Ground& g, const PlainModel& plain) {
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto shard = plain.flat_group(u).padded / g.layout.ranks, first = g.rank() * shard;
    write_masters(parts.states, u, plain.flat_group(u).weight, first, shard);
    fill(parts.states.state_shard(0, u), plain.flat_group(u).m, first);
    fill(parts.states.state_shard(1, u), plain.flat_group(u).v, first);
  }
  parts.states.shards_loaded(*parts.weights);
  parts.weights->complete();
}

// Reduces one step in which every rank has one micro-batch.
void reduce(Parts& parts, const Ground& g, const PlainModel& plain, std::int64_t step) {
  parts.gradients.begin_micro({0, params::GradientReduction::Position::Place::only});
  for (const auto occurrence : plain.occurrences) {
    parts.gradients.open(occurrence);
    fill(parts.gradients.whole(occurrence), plain.gradient(Values::scattered, step, g.rank(), occurrence));
    parts.gradients.commit(occurrence);
  }
  parts.gradients.finish();
  if (g.layout.zero == 0) parts.gradients.gather_sums();
}

void expect_states(Parts& parts, Ground& g, const PlainModel& plain, std::int64_t step) {
  SCOPED_TRACE(fmt::format("{} rank {} after update {}", g.layout.text(), g.rank(), step));
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto shard = plain.flat_group(u).padded / g.layout.ranks, first = g.rank() * shard;
    EXPECT_EQ(difference_of_masters(parts.states, u, plain.flat_group(u).weight, first, shard), "")
        << "master of flat group " << u;
    EXPECT_EQ(difference(parts.states.state_shard(0, u), plain.flat_group(u).m, first), "") << "m of flat group " << u;
    EXPECT_EQ(difference(parts.states.state_shard(1, u), plain.flat_group(u).v, first), "") << "v of flat group " << u;
    EXPECT_EQ(difference(parts.weights->own_shard(u), plain.flat_group(u).weight, first), "")
        << "working copy of flat group " << u;
    const auto updated_here = g.layout.zero == 0 ? difference(parts.weights->whole(u), plain.flat_group(u).weight) : "";
    EXPECT_EQ(updated_here, "") << "flat group " << u << " on a rank that updates all of it";
  }
}

// Makes every third weight one that lies in the middle of two numbers of bf16.
void make_ties(PlainModel& plain) {
  for (auto& group : plain.flat_groups)
    for (std::size_t i = 0; i < group.weight.size(); i += 3)
      if (group.live[i])
        group.weight[i] = std::bit_cast<float>((std::bit_cast<std::uint32_t>(group.weight[i]) & 0xffff0000u) | 0x8000u);
}

// The second and third update start from what the previous ones left. At stage 0 they start from whole states, of which
// a rank loaded only its shards.
TEST(Optimizer, UpdatesAreThePlainOnes) {
  for (const auto& model : {tied_model(), untied_model()})
    for (int zero = 0; zero < 4; ++zero)
      for (int ranks = 1; ranks <= 4; ++ranks)
        for (const auto& [working, master] : {std::pair{base::DType::f32, plan::MasterFormat::f32},
                                              {base::DType::bf16, plan::MasterFormat::f32},
                                              {base::DType::bf16, plan::MasterFormat::remainder},
                                              {base::DType::f16, plan::MasterFormat::f32}}) {
          ParallelLayout layout{ranks, zero, working, ranks};
          layout.master = master;
          on_ranks(model, layout, [](Ground& g) {
            PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
            plain.scatter(5);
            make_ties(plain);
            Parts parts(g);
            EXPECT_TRUE(g.full({&g.optimizer, &g.parameters})) << g.layout.text();
            load(parts, g, plain);
            expect_states(parts, g, plain, 0);
            for (std::int64_t step = 1; step <= 3; ++step) {
              reduce(parts, g, plain, step);
              parts.states.update(parts.gradients, *parts.weights, hyper(), 0);
              plain.update(plain.reduced(Values::scattered, step, g.layout.micros, 1), plain_hyper);
              expect_states(parts, g, plain, step);
            }
          });
        }
}

// Weight decay without a gradient: matrices shrink; biases, norms and tables do not; gaps stay zero.
TEST(Optimizer, DecayAppliesToTheParametersThatSaySo) {
  for (const int zero : {0, 2})
    on_ranks(tied_model(), {3, zero, base::DType::f32, 3}, [](Ground& g) {
      PlainModel plain(g.set.flat_groups, g.set.occurrences, 3);
      plain.scatter(6);
      for (auto& u : plain.flat_groups)
        std::fill(u.m.begin(), u.m.end(), 0.0f), std::fill(u.v.begin(), u.v.end(), 0.0f);
      Parts parts(g);
      load(parts, g, plain);
      for (const auto occurrence : plain.occurrences) {
        parts.gradients.begin_micro({0, params::GradientReduction::Position::Place::only});
        parts.gradients.open(occurrence);
        fill(parts.gradients.whole(occurrence),
             Floats(static_cast<std::size_t>(plain.flat_group(occurrence.flat_group).padded)));
        parts.gradients.commit(occurrence);
      }
      parts.gradients.finish();
      if (g.layout.zero == 0) parts.gradients.gather_sums();
      parts.states.update(parts.gradients, *parts.weights, hyper(), 0);
      int shrunk = 0, kept = 0;
      for (int u = 0; u < g.flat_groups(); ++u) {
        const auto shard = parts.states.master_shard(u);
        for (std::int64_t i = 0; i < shard.count(); ++i) {
          const auto at = static_cast<std::size_t>(g.rank() * shard.count() + i);
          const float before = plain.flat_group(u).weight[at], now = shard.ptr<float>()[i];
          const bool live = plain.flat_group(u).live[at], decays = plain.flat_group(u).decays[at];
          ASSERT_EQ(now, !live    ? 0
                         : decays ? before - plain_hyper.rate * (plain_hyper.decay * before)
                                  : before)
              << "flat group " << u << " element " << at;
          shrunk += decays, kept += live && !decays;
        }
      }
      EXPECT_GT(shrunk, 0);
      EXPECT_GT(kept, 0);
    });
}

}  // namespace
}  // namespace trainyard::test
