// Tests OptimizerStates with Lion: its one state and the weights after updates, element by element.
#include "tests/params/plain_updates.h"

namespace trainyard::test {
namespace optimizer_lion_test {

constexpr double beta1 = 0.9, beta2 = 0.99, rate = 0.01, decay = 0.1;
constexpr float scale = 0.25f;

params::UpdateRule rule_of(std::int64_t step) {
  params::OptimizerSettings settings;
  settings.beta1 = beta1, settings.beta2 = beta2, settings.weight_decay = decay;
  auto rule = params::update_rule("lion", settings, rate, step, nullptr);
  std::get<kernels::Lion>(rule).gradient_scale = scale;
  return rule;
}

void update(const PlainElement& e, std::int64_t) {
  const float b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2), s1 = 1 - b1, s2 = 1 - b2;
  const float g = e.gradient * scale;
  const float old = b1 * e.m, fresh = s1 * g, sum = old + fresh;
  const float shrunk = (e.decays ? static_cast<float>(decay) : 0.0f) * e.p;
  const float change = (sum > 0 ? 1.0f : sum < 0 ? -1.0f : 0.0f) + shrunk, moved = static_cast<float>(rate) * change;
  const float kept = b2 * e.m, added = s2 * g;
  e.m = kept + added;
  e.p = e.p - moved;
}

TEST(OptimizerLion, UpdatesAreThePlainOnes) {
  expect_plain_updates({.optimizer = "lion", .states = 1, .rule = rule_of, .element = update});
}

}  // namespace optimizer_lion_test
}  // namespace trainyard::test
