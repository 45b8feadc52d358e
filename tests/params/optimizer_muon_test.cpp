// Tests updates with Muon in a parameter store: 40 steps against double precision, the same bits on every layout, and
// what ranks send.
#include "tests/params/store_updates.h"

namespace trainyard::test {
namespace optimizer_muon_test {

constexpr double momentum = 0.9, beta1 = 0.8, beta2 = 0.95, epsilon = 1e-6, rate = 0.02, decay = 0.1;
constexpr float scale = 0.25f;

void update(params::ZeroStore& store, std::int64_t step, bool nesterov) {
  params::OptimizerSettings settings;
  settings.momentum = momentum, settings.nesterov = nesterov, settings.weight_decay = decay;
  settings.beta1 = beta1, settings.beta2 = beta2, settings.epsilon = epsilon;
  auto rules = params::update_rules("muon", settings, rate, step, nullptr);
  std::get<kernels::AdamW>(*rules.elements).gradient_scale = scale;
  rules.matrices->gradient_scale = scale;
  store.update(rules);
}

// As many bytes as the plan says, in each group.
void expect_planned_bytes(Ground& g, std::int64_t steps) {
  for (const auto& calls : plan::MatrixUpdates(g.set.table, g.world.topology).calls(g.world.rank)) {
    const auto totals = g.world.group(calls.group.axes()).ledger().totals();
    const auto found = totals.find("all_to_all");
    EXPECT_EQ(found == totals.end() ? 0 : static_cast<std::int64_t>(found->second.sent_bytes), steps * *calls.sent)
        << g.layout.text() << " rank " << g.world.rank;
  }
}

// The weights of all ranks after `steps` updates.
Whole updated(const plan::ModelConfig& model, const ParallelLayout& layout, std::int64_t steps, bool nesterov) {
  return test::updated(
      model, layout, steps, [nesterov](params::ZeroStore& store, std::int64_t step) { update(store, step, nesterov); },
      [steps](Ground& g, params::ZeroStore&) { expect_planned_bytes(g, steps); });
}

using Doubles = std::vector<double>;

// Jordan et al. 2024 in double precision: x, rows x cols, becomes its orthogonalisation.
void orthogonalise(Doubles& x, std::size_t rows, std::size_t cols) {
  double square = 0;
  for (const double v : x) square += v * v;
  for (double& v : x) v /= std::sqrt(square);
  for (int step = 0; step < 5; ++step) {
    // (x x') x, then again, so that no case for tall matrices is needed
    const auto times_gram = [&](const Doubles& y) {
      Doubles inner(cols * cols, 0.0), out(rows * cols, 0.0);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < cols; ++i)
          for (std::size_t j = 0; j < cols; ++j) inner[i * cols + j] += x[r * cols + i] * x[r * cols + j];
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < cols; ++i)
          for (std::size_t j = 0; j < cols; ++j) out[r * cols + j] += y[r * cols + i] * inner[i * cols + j];
      return out;
    };
    const auto cube = times_gram(x), fifth = times_gram(cube);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] - 4.7750 * cube[i] + 2.0315 * fifth[i];
  }
}

// Muon for weights with two dims of layers, AdamW for all others.
std::map<std::string, Doubles> in_double(const plan::ModelConfig& model, std::int64_t steps, bool nesterov) {
  std::map<std::string, Doubles> out;
  int matrices = 0;
  for (const auto& group : plan::flat_groups(model))
    for (const auto& p : group.parameters) {
      const auto n = static_cast<std::size_t>(p.count());
      Doubles w(n), m(n, 0.0), v(n, 0.0);
      for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<double>(initial(p.name, static_cast<std::int64_t>(i)));
      const bool matrix = p.name.starts_with("layers.") && p.shape.size() == 2;
      matrices += matrix;
      const double shrink = p.decay ? decay : 0;
      for (std::int64_t step = 1; step <= steps; ++step) {
        Doubles g(n);
        for (std::size_t i = 0; i < n; ++i)
          g[i] = 0.25 * static_cast<double>(number(2, step, p.name, static_cast<std::int64_t>(i)));
        if (matrix) {
          for (std::size_t i = 0; i < n; ++i) {
            m[i] = momentum * m[i] + g[i];
            g[i] = nesterov ? g[i] + momentum * m[i] : m[i];
          }
          const auto rows = static_cast<std::size_t>(p.shape[0]), cols = static_cast<std::size_t>(p.shape[1]);
          orthogonalise(g, rows, cols);
          const double size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)));
          for (std::size_t i = 0; i < n; ++i) w[i] -= rate * (size * g[i] + shrink * w[i]);
          continue;
        }
        for (std::size_t i = 0; i < n; ++i) {
          m[i] = beta1 * m[i] + (1 - beta1) * g[i];
          v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
          const double t = static_cast<double>(step);
          const double mean = m[i] / (1 - std::pow(beta1, t)), square = v[i] / (1 - std::pow(beta2, t));
          w[i] -= rate * (mean / (std::sqrt(square) + epsilon) + shrink * w[i]);
        }
      }
      out[p.name] = w;
    }
  EXPECT_GT(matrices, 15);
  return out;
}

TEST(OptimizerMuon, FollowsDoublePrecisionForFortySteps) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const bool nesterov : {false, true}) {
      ParallelLayout layout;
      layout.optimizer = "muon";
      const auto got = updated(model, layout, 40, nesterov);
      const auto want = in_double(model, 40, nesterov);
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, weights] : want) {
        double way = 0, error = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          way += std::pow(weights[i] - static_cast<double>(initial(name, static_cast<std::int64_t>(i))), 2);
          error += std::pow(weights[i] - static_cast<double>(got.at(name)[i]), 2);
        }
        EXPECT_LT(std::sqrt(error), 2e-5 * std::sqrt(way)) << name;
      }
    }
}

TEST(OptimizerMuon, HasTheSameBitsOnEveryLayout) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const auto working : {base::DType::f32, base::DType::bf16})
      expect_same_bits("muon", working, base::DType::f32,
                       [&](const ParallelLayout& layout) { return updated(model, layout, 3, true); });
}

}  // namespace optimizer_muon_test
}  // namespace trainyard::test
