// Tests OptimizerStates with Adam: its states and the weights after updates, element by element. Only weight decay
// differs from AdamW.
#include "tests/params/plain_updates.h"

namespace trainyard::test {
namespace optimizer_adam_test {

constexpr double beta1 = 0.9, beta2 = 0.95, rate = 0.01, epsilon = 1e-6, decay = 0.1;
constexpr float scale = 0.25f;

params::UpdateRule rule_of(std::int64_t step) {
  params::OptimizerSettings settings;
  settings.beta1 = beta1, settings.beta2 = beta2, settings.epsilon = epsilon, settings.weight_decay = decay;
  auto rule = params::update_rule("adam", settings, rate, step, nullptr);
  std::get<kernels::AdamW>(rule).gradient_scale = scale;
  return rule;
}

void update(const PlainElement& e, std::int64_t step) {
  const auto t = static_cast<double>(step);
  const float b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2), s1 = 1 - b1, s2 = 1 - b2,
              c1 = static_cast<float>(1 / (1 - std::pow(beta1, t))),
              c2 = static_cast<float>(1 / (1 - std::pow(beta2, t)));
  const float scaled = e.gradient * scale, decayed = (e.decays ? static_cast<float>(decay) : 0.0f) * e.p,
              g = scaled + decayed;
  const float old = b1 * e.m, fresh = s1 * g;
  e.m = old + fresh;
  const float square = g * g, older = b2 * e.v, fresher = s2 * square;
  e.v = older + fresher;
  const float corrected = e.v * c2, root = std::sqrt(corrected), d = root + static_cast<float>(epsilon);
  const float mean = e.m * c1, change = mean / d, moved = static_cast<float>(rate) * change;
  e.p = e.p - moved;
}

TEST(OptimizerAdam, UpdatesAreThePlainOnes) {
  expect_plain_updates({.optimizer = "adam", .states = 2, .rule = rule_of, .element = update});
}

}  // namespace optimizer_adam_test
}  // namespace trainyard::test
