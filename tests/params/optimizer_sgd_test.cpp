// Tests OptimizerStates with SGD: its one state and the weights after updates and loads, element by element, at every
// ZeRO stage and in every dtype of working copies.
#include "libtrain/params/optimizer.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace optimizer_sgd_test {

struct PlainSgd {
  float rate, momentum, decay, scale;
  bool nesterov;
};

params::UpdateRule rule_of(const PlainSgd& plain) {
  params::OptimizerSettings settings;
  settings.momentum = plain.momentum, settings.weight_decay = plain.decay, settings.nesterov = plain.nesterov;
  auto rule = params::update_rule("sgd", settings, plain.rate, 1, nullptr);
  std::get<kernels::Sgd>(rule).gradient_scale = plain.scale;
  return rule;
}

// One step on the plain model, whose `m` is the buffer.
void update(PlainModel& plain, const std::vector<Floats>& gradients, const PlainSgd& h) {
  for (std::size_t u = 0; u < plain.flat_groups.size(); ++u)
    for (std::size_t i = 0; i < plain.flat_groups[u].weight.size(); ++i) {
      float &p = plain.flat_groups[u].weight[i], &buffer = plain.flat_groups[u].m[i];
      const float scaled = gradients[u][i] * h.scale, decay = (plain.flat_groups[u].decays[i] ? h.decay : 0.0f) * p,
                  g = scaled + decay;
      const float old = h.momentum * buffer;
      buffer = old + g;
      const float ahead = h.momentum * buffer, step = h.nesterov ? g + ahead : buffer, moved = h.rate * step;
      p = p - moved;
    }
}

struct Parts {
  explicit Parts(Ground& g)
      : weights(g.layout.zero == 3 ? params::make_gathered_weights(g.context) : params::make_whole_weights(g.context)),
        gradients(g.context), states(g.context, *weights) {}
  std::unique_ptr<params::Weights> weights;
  params::GradientReduction gradients;
  params::OptimizerStates states;
};

void expect_states(Parts& parts, Ground& g, const PlainModel& plain, std::int64_t step) {
  SCOPED_TRACE(fmt::format("{} rank {} after update {}", g.layout.text(), g.rank(), step));
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto first = g.rank() * (plain.flat_group(u).padded / g.layout.ranks);
    EXPECT_EQ(difference(parts.states.master_shard(u), plain.flat_group(u).weight, first), "") << "flat group " << u;
    EXPECT_EQ(difference(parts.states.state_shard(0, u), plain.flat_group(u).m, first), "") << "flat group " << u;
    EXPECT_EQ(difference(parts.weights->own_shard(u), plain.flat_group(u).weight, first), "") << "flat group " << u;
    const auto here = g.layout.zero == 0 ? difference(parts.weights->whole(u), plain.flat_group(u).weight) : "";
    EXPECT_EQ(here, "") << "flat group " << u << " on a rank that updates all of it";
  }
}

TEST(OptimizerSgd, UpdatesAreThePlainOnes) {
  for (const bool nesterov : {false, true})
    for (const auto& model : {tied_model(), untied_model()})
      for (int zero = 0; zero < 4; ++zero)
        for (const int ranks : {1, 3})
          for (const auto working : {base::DType::f32, base::DType::bf16, base::DType::f16}) {
            ParallelLayout layout{ranks, zero, working, ranks};
            layout.optimizer = "sgd";
            on_ranks(model, layout, [nesterov](Ground& g) {
              const PlainSgd numbers{0.01f, 0.9f, 0.1f, 0.25f, nesterov};
              PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
              plain.scatter(5);
              Parts parts(g);
              EXPECT_TRUE(g.full({&g.optimizer, &g.parameters})) << g.layout.text();
              for (int u = 0; u < g.flat_groups(); ++u) {
                const auto first = g.rank() * (plain.flat_group(u).padded / g.layout.ranks);
                fill(parts.states.master_shard(u), plain.flat_group(u).weight, first);
                fill(parts.states.state_shard(0, u), plain.flat_group(u).m, first);
              }
              parts.states.shards_loaded(*parts.weights);
              parts.weights->complete();
              expect_states(parts, g, plain, 0);
              for (std::int64_t step = 1; step <= 3; ++step) {
                parts.gradients.begin_micro({0, params::GradientReduction::Position::Place::only});
                for (const auto occurrence : plain.occurrences) {
                  parts.gradients.open(occurrence);
                  fill(parts.gradients.whole(occurrence),
                       plain.gradient(Values::scattered, step, g.rank(), occurrence));
                  parts.gradients.commit(occurrence);
                }
                parts.gradients.finish();
                if (g.layout.zero == 0) parts.gradients.gather_sums();
                parts.states.update(parts.gradients, *parts.weights, rule_of(numbers), 0);
                update(plain, plain.reduced(Values::scattered, step, g.layout.micros, 1), numbers);
                expect_states(parts, g, plain, step);
              }
            });
          }
}

TEST(OptimizerSgd, RefusesTheRuleOfAnotherOptimizer) {
  ParallelLayout layout;
  layout.optimizer = "sgd";
  on_ranks(tied_model(), layout, [](Ground& g) {
    Parts parts(g);
    EXPECT_THROW(parts.states.update(parts.gradients, *parts.weights, kernels::AdamW{}, 0), std::logic_error);
  });
  EXPECT_THROW(params::update_rule("other", {}, 1, 1, nullptr), std::logic_error);
}

}  // namespace optimizer_sgd_test
}  // namespace trainyard::test
