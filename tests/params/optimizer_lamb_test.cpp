// Tests updates with LAMB in a parameter store: 40 steps against double precision with states in f32 and in bf16, and
// the same bits on every layout.
#include "tests/params/store_updates.h"

namespace trainyard::test {
namespace optimizer_lamb_test {

constexpr double beta1 = 0.8, beta2 = 0.95, epsilon = 1e-6, rate = 0.01, decay = 0.1;
constexpr float scale = 0.25f;

void update(params::ZeroStore& store, std::int64_t step) {
  params::OptimizerSettings settings;
  settings.beta1 = beta1, settings.beta2 = beta2, settings.epsilon = epsilon, settings.weight_decay = decay;
  auto rule = params::update_rule("lamb", settings, rate, step, nullptr);
  std::get<kernels::Lamb>(rule).gradient_scale = scale;
  store.update(rule);
}

using Doubles = std::vector<double>;

double in_state(double x, base::DType states) {
  return states == base::DType::bf16 ? static_cast<double>(static_cast<float>(base::bf16(static_cast<float>(x)))) : x;
}

// You et al. 2020, algorithm 2, with the bias correction of its moments; the moments are rounded to the dtype of
// states.
std::map<std::string, Doubles> in_double(const plan::ModelConfig& model, std::int64_t steps, base::DType states) {
  std::map<std::string, Doubles> out;
  for (const auto& group : plan::flat_groups(model))
    for (const auto& p : group.parameters) {
      const auto n = static_cast<std::size_t>(p.count());
      Doubles w(n), m(n, 0.0), v(n, 0.0), u(n);
      for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<double>(initial(p.name, static_cast<std::int64_t>(i)));
      for (std::int64_t step = 1; step <= steps; ++step) {
        const double t = static_cast<double>(step);
        double weights = 0, updates = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const double g = 0.25 * static_cast<double>(number(2, step, p.name, static_cast<std::int64_t>(i)));
          m[i] = in_state(beta1 * m[i] + (1 - beta1) * g, states);
          v[i] = in_state(beta2 * v[i] + (1 - beta2) * g * g, states);
          u[i] = m[i] / (1 - std::pow(beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + epsilon) +
                 (p.decay ? decay : 0) * w[i];
          weights += w[i] * w[i], updates += u[i] * u[i];
        }
        const double ratio = weights > 0 && updates > 0 ? std::sqrt(weights / updates) : 1;
        for (std::size_t i = 0; i < n; ++i) w[i] -= rate * ratio * u[i];
      }
      out[p.name] = w;
    }
  return out;
}

// How far `weights` are from `want`, beside the way of the weights.
double error_of(const std::string& name, const Doubles& want, const std::function<double(std::size_t)>& weights) {
  double way = 0, error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    way += std::pow(want[i] - static_cast<double>(initial(name, static_cast<std::int64_t>(i))), 2);
    error += std::pow(want[i] - weights(i), 2);
  }
  return std::sqrt(error / way);
}

// A moment that lies between two numbers of bf16 may be rounded to the other one, so states in bf16 are less near. They
// are still nearer than states that are not rounded would be.
TEST(OptimizerLamb, FollowsDoublePrecisionForFortySteps) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const auto states : {base::DType::f32, base::DType::bf16}) {
      ParallelLayout layout;
      layout.optimizer = "lamb", layout.states = states;
      const auto got = updated(model, layout, 40, update);
      const auto want = in_double(model, 40, states), wide = in_double(model, 40, base::DType::f32);
      ASSERT_EQ(got.size(), want.size());
      double most = 0, least_of_wide = 1;
      for (const auto& [name, weights] : want) {
        const auto& found = got.at(name);
        most = std::max(most, error_of(name, weights, [&](std::size_t i) { return static_cast<double>(found[i]); }));
        const auto& unrounded = wide.at(name);
        least_of_wide = std::min(least_of_wide, error_of(name, weights, [&](std::size_t i) { return unrounded[i]; }));
      }
      if (states == base::DType::f32) EXPECT_LT(most, 2e-5);
      else EXPECT_LT(3 * most, least_of_wide);
    }
}

TEST(OptimizerLamb, HasTheSameBitsOnEveryLayout) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const auto working : {base::DType::f32, base::DType::bf16})
      for (const auto states : {base::DType::f32, base::DType::bf16})
        expect_same_bits("lamb", working, states,
                         [&](const ParallelLayout& layout) { return updated(model, layout, 3, update); });
}

}  // namespace optimizer_lamb_test
}  // namespace trainyard::test
