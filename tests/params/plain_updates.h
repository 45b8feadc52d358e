// Compares the updates that an optimizer makes in a parameter store with plain ones, element by element, at every ZeRO
// stage and in every dtype of working copies.
#pragma once

#include "libtrain/params/optimizer.h"
#include "tests/params/ground.h"
#include "tests/params/kept_masters.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

namespace trainyard::test {

struct StoreParts {
  explicit StoreParts(Ground& g)
      : weights(g.layout.zero == 3 ? params::make_gathered_weights(g.context) : params::make_whole_weights(g.context)),
        gradients(g.context), states(g.context, *weights) {}
  std::unique_ptr<params::Weights> weights;
  params::GradientReduction gradients;
  params::OptimizerStates states;
};

struct PlainElement {
  float &p, &m, &v;
  float gradient;
  bool decays;
};

struct PlainUpdates {
  std::string optimizer;
  std::size_t states;  // 1: the m of the plain model; 2: its m and v
  std::function<params::UpdateRule(std::int64_t step)> rule;
  std::function<void(const PlainElement&, std::int64_t step)> element;
};

inline void expect_plain(StoreParts& parts, Ground& g, const PlainModel& plain, const PlainUpdates& updates,
                         std::int64_t step) {
  SCOPED_TRACE(fmt::format("{} {} rank {} after update {}", updates.optimizer, g.layout.text(), g.rank(), step));
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto& want = plain.flat_group(u);
    const auto shard = want.padded / g.layout.ranks, first = g.rank() * shard;
    EXPECT_EQ(difference_of_masters(parts.states, u, want.weight, first, shard), "") << "flat group " << u;
    for (std::size_t s = 0; s < updates.states; ++s)
      EXPECT_EQ(difference(parts.states.state_shard(s, u), s == 0 ? want.m : want.v, first), "")
          << "state " << s << " of flat group " << u;
    EXPECT_EQ(difference(parts.weights->own_shard(u), want.weight, first), "") << "flat group " << u;
    const auto here = g.layout.zero == 0 ? difference(parts.weights->whole(u), want.weight) : "";
    EXPECT_EQ(here, "") << "flat group " << u << " on a rank that updates all of it";
  }
}

// Three updates after a load. The second and third start from what the previous ones left.
inline void expect_plain_updates(Ground& g, const PlainUpdates& updates) {
  PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
  plain.scatter(5);
  StoreParts parts(g);
  EXPECT_TRUE(g.full({&g.optimizer, &g.parameters})) << g.layout.text();
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto& from = plain.flat_group(u);
    const auto shard = from.padded / g.layout.ranks, first = g.rank() * shard;
    write_masters(parts.states, u, from.weight, first, shard);
    for (std::size_t s = 0; s < updates.states; ++s)
      fill(parts.states.state_shard(s, u), s == 0 ? from.m : from.v, first);
  }
  parts.states.shards_loaded(*parts.weights);
  parts.weights->complete();
  expect_plain(parts, g, plain, updates, 0);
  for (std::int64_t step = 1; step <= 3; ++step) {
    parts.gradients.begin_micro({0, params::GradientReduction::Position::Place::only});
    for (const auto occurrence : plain.occurrences) {
      parts.gradients.open(occurrence);
      fill(parts.gradients.whole(occurrence), plain.gradient(Values::scattered, step, g.rank(), occurrence));
      parts.gradients.commit(occurrence);
    }
    parts.gradients.finish();
    if (g.layout.zero == 0) parts.gradients.gather_sums();
    parts.states.update(parts.gradients, *parts.weights, updates.rule(step), 0);
    const auto gradients = plain.reduced(Values::scattered, step, g.layout.micros, 1);
    for (std::size_t u = 0; u < gradients.size(); ++u)
      for (std::size_t i = 0; i < gradients[u].size(); ++i) {
        auto& group = plain.flat_groups[u];
        updates.element({group.weight[i], group.m[i], group.v[i], gradients[u][i], group.decays[i] != 0}, step);
      }
    expect_plain(parts, g, plain, updates, step);
  }
}

inline void expect_plain_updates(const PlainUpdates& updates) {
  for (const auto& model : {tied_model(), untied_model()})
    for (int zero = 0; zero < 4; ++zero)
      for (const int ranks : {1, 3})
        for (const auto working : {base::DType::f32, base::DType::bf16, base::DType::f16})
          for (const auto master : {plan::MasterFormat::f32, plan::MasterFormat::remainder}) {
            ParallelLayout layout{ranks, zero, working, ranks};
            layout.optimizer = updates.optimizer, layout.master = master;
            const bool norms = plan::optimizer_kind(updates.optimizer).has_parameter_norms();
            if (master == plan::MasterFormat::remainder && (working != base::DType::bf16 || norms)) continue;
            on_ranks(model, layout, [&](Ground& g) { expect_plain_updates(g, updates); });
          }
}

}  // namespace trainyard::test
