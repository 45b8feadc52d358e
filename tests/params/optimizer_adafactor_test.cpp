// Tests updates with Adafactor in a parameter store: 40 steps against double precision, the same bits of weights and
// states on every layout, and what ranks send.
#include "tests/params/store_updates.h"

#include "libtrain/params/zero_store.h"
#include "libtrain/plan/blocks/held.h"
#include "libtrain/plan/cost/factored_moments.h"
#include "libtrain/plan/cost/parameter_norms.h"

#include <map>
#include <mutex>

namespace trainyard::test {
namespace optimizer_adafactor_test {

constexpr double rate = 0.02, decay = 0.1, beta2_decay = 0.8;
constexpr float scale = 0.25f;

void update(params::ZeroStore& store, std::int64_t step, bool scale_parameter) {
  params::OptimizerSettings settings;
  settings.weight_decay = decay, settings.beta2_decay = beta2_decay, settings.scale_parameter = scale_parameter;
  auto rules = params::update_rules("adafactor", settings, rate, step, nullptr);
  rules.factored->gradient_scale = scale;
  store.update(rules);
}

// The weights of logical parameters, and their states, by name.
Whole updated(const plan::ModelConfig& model, const ParallelLayout& layout, std::int64_t steps, bool scale_parameter) {
  Whole of_states;
  std::mutex mutex;
  const auto after = [&](Ground& g, params::ZeroStore& store) {
    // As many bytes as the plan says, in each group.
    auto calls = plan::factored_moment_calls(g.set.table, g.context.shape);
    for (auto& c : plan::parameter_norm_calls(g.set.table, g.context.shape)) calls.push_back(std::move(c));
    std::map<std::string, std::int64_t> bytes;
    for (const auto& c : calls)
      bytes[plan::name_of(c.group.axes())] += 2 * c.bytes * (c.ranks - 1) / c.ranks * c.calls * steps;
    for (const auto axis : {plan::Axis::data, plan::Axis::tensor}) {
      const auto totals = g.world.group({axis}).ledger().totals();
      const auto found = totals.find("all_reduce");
      EXPECT_EQ(found == totals.end() ? 0 : static_cast<std::int64_t>(found->second.sent_bytes),
                bytes[plan::name_of(plan::Axes{axis})])
          << layout.text() << " rank " << g.world.rank;
    }
    const std::lock_guard lock(mutex);
    for (int u = 0; u < g.flat_groups(); ++u) {  // all ranks have the same states
      const auto& parameters = g.context.flat_group(u).parameters;
      for (std::size_t p = 0; p < parameters.size(); ++p)
        for (std::size_t s = 0; s < 2; ++s) {
          const auto view = store.states().factored_state(s, u, p);
          const Floats values(view.ptr<float>(), view.ptr<float>() + view.count());
          auto& to = of_states[(s == 0 ? "row_var " : "column_var ") + parameters[p].name];
          if (to.empty()) to = values;
          ASSERT_EQ(std::memcmp(to.data(), values.data(), 4 * values.size()), 0) << parameters[p].name;
        }
    }
  };
  auto out = updated(
      model, layout, steps, [=](params::ZeroStore& store, std::int64_t step) { update(store, step, scale_parameter); },
      after);
  out.merge(of_states);
  return out;
}

using Doubles = std::vector<double>;

double root_mean_square(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// Shazeer and Stern 2018, algorithms 4 and 5, without a first moment and with decoupled weight decay, as
// torch.optim.Adafactor has it.
void one_parameter(const plan::Parameter& p, std::int64_t steps, bool scale_parameter,
                   std::map<std::string, Doubles>& out) {
  const auto rows = static_cast<std::size_t>(p.shape[0]), n = static_cast<std::size_t>(p.count()), cols = n / rows;
  const bool vector = p.shape.size() == 1;
  Doubles w(n), u(n), r(rows, 0.0), c(cols, 0.0);
  for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<double>(initial(p.name, static_cast<std::int64_t>(i)));
  for (std::int64_t step = 1; step <= steps; ++step) {
    const double t = static_cast<double>(step), fresh = std::pow(t, -beta2_decay);
    Doubles g(n), row(rows, 0.0), column(cols, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      g[i] = 0.25 * static_cast<double>(number(2, step, p.name, static_cast<std::int64_t>(i)));
      row[i / cols] += g[i] * g[i], column[i % cols] += g[i] * g[i];
    }
    double mean = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      r[i] += fresh * (row[i] / static_cast<double>(cols) + 1e-30 - r[i]);
      mean += r[i] / static_cast<double>(rows);
    }
    for (std::size_t j = 0; j < cols; ++j) c[j] += fresh * (column[j] / static_cast<double>(rows) + 1e-30 - c[j]);
    for (std::size_t i = 0; i < n; ++i) u[i] = g[i] / std::sqrt(vector ? r[i] : r[i / cols] * c[i % cols] / mean);
    const double rho = std::min(rate, 1 / std::sqrt(t)) * (scale_parameter ? std::max(1e-3, root_mean_square(w)) : 1),
                 a = rho / std::max(1.0, root_mean_square(u));
    for (std::size_t i = 0; i < n; ++i) w[i] = w[i] * (p.decay ? 1 - rate * decay : 1) - a * u[i];
  }
  out[p.name] = w, out["row_var " + p.name] = r, out["column_var " + p.name] = c;
}

TEST(OptimizerAdafactor, FollowsDoublePrecisionForFortySteps) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const bool scale_parameter : {false, true}) {
      ParallelLayout layout;
      layout.optimizer = "adafactor";
      const auto got = updated(model, layout, 40, scale_parameter);
      std::map<std::string, Doubles> want;
      for (const auto& group : plan::flat_groups(model))
        for (const auto& p : group.parameters) one_parameter(p, 40, scale_parameter, want);
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, values] : want) {
        double way = 0, error = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const bool is_state = name.find("_var ") != std::string::npos;
          const double from = is_state ? 0 : static_cast<double>(initial(name, static_cast<std::int64_t>(i)));
          way += std::pow(values[i] - from, 2);
          error += std::pow(values[i] - static_cast<double>(got.at(name)[i]), 2);
        }
        EXPECT_LT(std::sqrt(error), 2e-5 * std::sqrt(way)) << name;
      }
    }
}

TEST(OptimizerAdafactor, HasTheSameBitsOnEveryLayout) {
  for (const auto& model : {tied_model_of_heads(), untied_model_of_heads()})
    for (const auto working : {base::DType::f32, base::DType::bf16})
      expect_same_bits("adafactor", working, base::DType::f32,
                       [&](const ParallelLayout& layout) { return updated(model, layout, 3, true); });
}

}  // namespace optimizer_adafactor_test
}  // namespace trainyard::test
