// The registry of optimizers, and the description of each.
#include "libtrain/plan/spec/optimizer_kind.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>

namespace trainyard::plan {

namespace {

struct Registered {
  OptimizerKind f32, bf16;  // the dtype of the states
  OptimizerKind averaged;   // f32, with a moving average
};
using Optimizers = std::map<std::string, std::unique_ptr<Registered>>;

constexpr auto none = OptimizerKind::Collective::none, parameter_norms = OptimizerKind::Collective::parameter_norms,
               factored_moments = OptimizerKind::Collective::factored_moments;
constexpr auto rows = OptimizerState::Shape::rows, columns = OptimizerState::Shape::columns;

void put(Optimizers& all, const OptimizerKind& kind) {
  auto& place = all[kind.name];
  if (place == nullptr) place = std::make_unique<Registered>();  // references to a kind stay valid
  *place = {kind, kind, kind};
  for (auto& state : place->bf16.states) state.dtype = base::DType::bf16;
  auto& averaged = place->averaged;
  averaged.states.insert(averaged.states.begin() + static_cast<std::ptrdiff_t>(kind.element_states()),
                         OptimizerState{average_state});
  averaged.averages = true, averaged.flops += 3;
}

// The list of the library. Their kernels are in kernels/update.
Optimizers& optimizers() {
  static Optimizers all = [] {
    Optimizers known;
    put(known, {"adafactor",
                {{"row_var", base::DType::f32, rows}, {"column_var", base::DType::f32, columns}},
                {"beta2-decay", "scale-parameter", "weight-decay"},
                factored_moments,
                14});
    put(known, {"adam", {{"m"}, {"v"}}, {"beta1", "beta2", "epsilon", "weight-decay"}, none, 16});
    put(known, {"adamw", {{"m"}, {"v"}}, {"beta1", "beta2", "epsilon", "weight-decay"}, none, 16});
    put(known, {"lamb", {{"m"}, {"v"}}, {"beta1", "beta2", "epsilon", "weight-decay"}, parameter_norms, 32});
    put(known, {"lion", {{"m"}}, {"beta1", "beta2", "weight-decay"}, none, 12});
    put(known, {"muon",
                {{"m"}, {"v"}},
                {"momentum", "nesterov", "beta1", "beta2", "epsilon", "weight-decay"},
                OptimizerKind::Collective::whole_matrices,
                16});
    put(known, {"sgd", {{"momentum"}}, {"momentum", "nesterov", "weight-decay"}, none, 7});
    return known;
  }();
  return all;
}

}  // namespace

std::vector<std::int64_t> dims_of_state(OptimizerState::Shape shape, const std::vector<std::int64_t>& parameter) {
  if (shape == OptimizerState::Shape::parameter) return parameter;
  if (shape == OptimizerState::Shape::rows) return {parameter.front()};
  return {std::accumulate(parameter.begin() + 1, parameter.end(), std::int64_t{1}, std::multiplies<>())};
}

std::int64_t OptimizerKind::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& state : states)
    if (state.shape == OptimizerState::Shape::parameter) bytes += base::size_of(state.dtype);
  return bytes;
}

std::size_t OptimizerKind::element_states() const {
  return static_cast<std::size_t>(std::ranges::count(states, OptimizerState::Shape::parameter, &OptimizerState::shape));
}

base::DType OptimizerKind::state_dtype() const { return states.empty() ? base::DType::f32 : states.front().dtype; }

std::int64_t OptimizerKind::update_bytes() const {
  constexpr auto number = base::size_of(base::DType::f32);
  const std::int64_t once = 3 * number + 2 * state_bytes() + (averages ? number : 0);
  if (collective == factored_moments) return once + 4 * number;
  return collective == parameter_norms ? once + number + 2 * state_bytes() : once;
}

bool OptimizerKind::reads(const std::string& setting) const {
  return std::find(settings.begin(), settings.end(), setting) != settings.end();
}

bool is_state_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= 64 && name != "master" && std::all_of(name.begin(), name.end(), plain);
}

void register_optimizer(const OptimizerKind& kind) {
  if (!is_state_name(kind.name))
    throw base::UsageError(fmt::format("'{}' cannot be the name of an optimizer", base::one_line(kind.name)),
                           "letters, digits and '_'");
  for (auto state = kind.states.begin(); state != kind.states.end(); ++state) {
    const bool twice = std::any_of(kind.states.begin(), state, [&](const auto& s) { return s.name == state->name; });
    if (!is_state_name(state->name) || twice || state->name == average_state)
      throw base::UsageError(
          fmt::format("'{}' cannot be the name of a state of '{}'", base::one_line(state->name), kind.name),
          fmt::format("letters, digits and '_'; each once, and neither 'master' nor '{}'", average_state));
    TRAINYARD_ASSERT(state->shape != OptimizerState::Shape::parameter ||
                         std::all_of(kind.states.begin(), state,
                                     [](const auto& s) { return s.shape == OptimizerState::Shape::parameter; }),
                     "the state {} of {} comes after states of rows and columns", state->name, kind.name);
    TRAINYARD_ASSERT(state->dtype == base::DType::f32, "the state {} of {} is {}: that is not built", state->name,
                     kind.name, base::name_of(state->dtype));
  }
  TRAINYARD_ASSERT(kind.has_factored_states() == (kind.collective == factored_moments),
                   "{} has states of rows and columns without their sums, or sums without such states", kind.name);
  put(optimizers(), kind);
}

const OptimizerKind& optimizer_kind(const std::string& name, base::DType states, bool averages) {
  const auto found = optimizers().find(name);
  TRAINYARD_ASSERT(states == base::DType::f32 || states == base::DType::bf16, "states in {}", base::name_of(states));
  if (found != optimizers().end() && averages) return found->second->averaged;
  if (found != optimizers().end()) return states == base::DType::bf16 ? found->second->bf16 : found->second->f32;
  throw base::UsageError(fmt::format("no optimizer is called '{}'; there are {}", base::one_line(name),
                                     fmt::join(optimizer_names(), ", ")),
                         base::value_hint(name, optimizer_names()));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : optimizers()) names.push_back(name);
  return names;
}

bool is_of_an_optimizer(const std::string& setting) {
  return std::any_of(optimizers().begin(), optimizers().end(),
                     [&](const auto& kind) { return kind.second->f32.reads(setting); });
}

}  // namespace trainyard::plan
