// Tests updates with Muon in a parameter store: 40 steps against double precision, the same bits on every layout, and
// what ranks send.
#include "tests/params/plain_updates.h"

#include "libtrain/params/zero_store.h"
#include "libtrain/plan/blocks/held.h"

#include <map>
#include <mutex>

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

float number(std::int64_t what, std::int64_t step, const std::string& name, std::int64_t i) {
  return value(Values::scattered, what, step, static_cast<std::int64_t>(std::hash<std::string>()(name) % 1000), 0, i);
}

// Small, so that rounding of a weight is small beside its way.
float initial(const std::string& name, std::int64_t i) { return 0x1p-9f * number(1, 0, name, i); }

// Values of logical parameters by name.
using Whole = std::map<std::string, Floats>;

// The weights of all ranks after `steps` updates.
Whole updated(const plan::ModelConfig& model, const ParallelLayout& layout, std::int64_t steps, bool nesterov) {
  Whole out;
  std::mutex mutex;
  on_ranks(model, layout, [&](Ground& g) {
    const auto& topology = g.world.topology;
    const auto part_of = [&](const plan::Parameter& p) { return plan::held_part(p, topology, g.world.rank); };
    params::ZeroStore store(g.context);
    auto& states = store.states();
    // f(shard index, parameter, run of it) for what lies in this rank's shard of a flat group
    const auto each_of_shard = [&](int u, const auto& f) {
      const auto& l = g.set.layouts[static_cast<std::size_t>(u)];
      for (const auto& held : plan::held_ranges(l, g.rank() * l.shard, (g.rank() + 1) * l.shard)) {
        const auto& p = g.context.flat_group(u).parameters[held.parameter];
        plan::for_each_held_run(p, part_of(p), held.first, held.count,
                                [&](const plan::HeldRun& run) { f(held.at + run.held - held.first, p, run); });
      }
    };
    for (int u = 0; u < g.flat_groups(); ++u) {
      for (auto view : {states.master_shard(u), states.state_shard(0, u), states.state_shard(1, u)})
        std::fill_n(view.ptr<float>(), view.count(), 0.0f);
      each_of_shard(u, [&](std::int64_t at, const plan::Parameter& p, const plan::HeldRun& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          states.master_shard(u).ptr<float>()[at + i] = initial(p.name, run.logical + i);
      });
    }
    store.shards_loaded();
    for (std::int64_t step = 1; step <= steps; ++step) {
      store.begin_step({});
      store.begin_backward({0, params::GradientReduction::Position::Place::only});
      for (const auto occurrence : g.set.occurrences) {
        auto gradients = store.grads(occurrence);
        const auto& group = g.context.flat_group(occurrence.flat_group);
        for (std::size_t s = 0; s < group.parameters.size(); ++s) {
          const auto& p = group.parameters[s];
          auto* to = gradients.gradient(static_cast<int>(s)).ptr<float>();
          std::fill_n(to, g.context.layout(occurrence.flat_group).count(s), 0.0f);
          if (g.rank() != 0 || occurrence.index > 0) continue;  // one micro-batch has it all
          plan::for_each_held_run(p, part_of(p), 0, g.context.layout(occurrence.flat_group).count(s),
                                  [&](const plan::HeldRun& run) {
                                    for (std::int64_t i = 0; i < run.count; ++i)
                                      to[run.held + i] = number(2, step, p.name, run.logical + i);
                                  });
        }
        gradients.commit();
      }
      store.finish();
      update(store, step, nesterov);
    }
    store.complete_weights();
    // As many bytes as the plan says, in each group.
    for (const auto& calls : plan::MatrixUpdates(g.set.table, topology).calls(g.world.rank)) {
      const auto totals = g.world.group(calls.group.axes()).ledger().totals();
      const auto found = totals.find("all_to_all");
      EXPECT_EQ(found == totals.end() ? 0 : static_cast<std::int64_t>(found->second.sent_bytes), steps * *calls.sent)
          << layout.text() << " rank " << g.world.rank;
    }
    const std::lock_guard lock(mutex);
    for (int u = 0; u < g.flat_groups(); ++u)
      each_of_shard(u, [&](std::int64_t at, const plan::Parameter& p, const plan::HeldRun& run) {
        auto& to = out[p.name];
        to.resize(static_cast<std::size_t>(p.count()));
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float w = states.master_shard(u).ptr<float>()[at + i];
          to[static_cast<std::size_t>(run.logical + i)] = w;
          if (layout.working == base::DType::f32) continue;
          std::uint16_t bits = 0;
          std::memcpy(&bits, static_cast<const char*>(store.weights().own_shard(u).data) + 2 * (at + i), 2);
          ASSERT_EQ(bits, bf16_bits(w)) << p.name;
        }
      });
  });
  return out;
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
  struct Case {
    int ranks, zero, tensor;
  };
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const auto working : {base::DType::f32, base::DType::bf16}) {
      Whole first;
      for (const auto& [ranks, zero, tensor] :
           {Case{1, 0, 1}, Case{1, 2, 1}, Case{2, 0, 1}, Case{3, 0, 1}, Case{3, 1, 1}, Case{2, 2, 1}, Case{3, 3, 1},
            Case{1, 0, 2}, Case{2, 0, 2}, Case{3, 1, 2}, Case{2, 2, 4}, Case{3, 3, 2}, Case{1, 1, 4}}) {
        ParallelLayout layout{ranks, zero, working, ranks};
        layout.tensor = tensor, layout.optimizer = "muon";
        const auto got = updated(model, layout, 3, true);
        if (first.empty()) first = got;
        for (const auto& [name, weights] : first)
          ASSERT_EQ(std::memcmp(got.at(name).data(), weights.data(), 4 * weights.size()), 0)
              << name << ", " << layout.text();
      }
    }
}

}  // namespace optimizer_muon_test
}  // namespace trainyard::test
