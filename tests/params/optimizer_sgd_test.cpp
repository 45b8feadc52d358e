// Tests OptimizerStates with SGD: its one state and the weights after updates and loads, element by element, at every
// ZeRO stage and in every dtype of working copies.
#include "tests/params/plain_updates.h"

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

// One step of an element, whose `m` is the buffer.
void update(const PlainElement& e, const PlainSgd& h) {
  const float scaled = e.gradient * h.scale, decay = (e.decays ? h.decay : 0.0f) * e.p, g = scaled + decay;
  const float old = h.momentum * e.m;
  e.m = old + g;
  const float ahead = h.momentum * e.m, step = h.nesterov ? g + ahead : e.m, moved = h.rate * step;
  e.p = e.p - moved;
}

TEST(OptimizerSgd, UpdatesAreThePlainOnes) {
  for (const bool nesterov : {false, true}) {
    const PlainSgd numbers{0.01f, 0.9f, 0.1f, 0.25f, nesterov};
    expect_plain_updates({.optimizer = "sgd",
                          .states = 1,
                          .rule = [&](std::int64_t) { return rule_of(numbers); },
                          .element = [&](const PlainElement& e, std::int64_t) { update(e, numbers); }});
  }
}

TEST(OptimizerSgd, RefusesTheRuleOfAnotherOptimizer) {
  ParallelLayout layout;
  layout.optimizer = "sgd";
  on_ranks(tied_model(), layout, [](Ground& g) {
    StoreParts parts(g);
    EXPECT_THROW(parts.states.update(parts.gradients, *parts.weights, kernels::AdamW{}, 0), std::logic_error);
  });
  EXPECT_THROW(params::update_rule("other", {}, 1, 1, nullptr), std::logic_error);
}

}  // namespace optimizer_sgd_test
}  // namespace trainyard::test
