// Names, kinds, the table of parameters, and the statistics of tensors.
#include "libtrain/checkpoint/manifest.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/wide_vectors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trainyard::checkpoint {

std::string path_of(const Kind& kind) { return kind == Kind::model ? "/model" : "/optimizer/" + kind.name(); }

std::string path_of(const Kind& kind, const std::string& parameter) { return path_of(kind) + "/" + parameter; }

base::DType dtype_of(const Kind& kind, base::DType working) { return kind == Kind::model ? working : base::DType::f32; }

std::vector<Kind> kinds_of(base::DType working, Contents contents, const StoredOptimizer& optimizer) {
  std::vector<Kind> kinds{Kind::model};
  if (contents == Contents::model) return kinds;
  if (working != base::DType::f32) kinds.push_back(Kind::master);
  for (const auto& state : optimizer.states) kinds.push_back(Kind::state(state));
  return kinds;
}

std::vector<Kind> kinds_of(const RunState& state) { return kinds_of(state.dtype, state.contents, state.optimizer); }

bool has(const RunState& state, const Kind& kind) {
  const auto kinds = kinds_of(state);
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Kind exact_weights(const RunState& state) { return has(state, Kind::master) ? Kind::master : Kind::model; }

std::string step_name(std::int64_t step) { return fmt::format("step-{:08}", step); }
std::string rank_name(int rank) { return fmt::format("rank-{:05}", rank); }

std::vector<ParameterEntry> parameters_of(const plan::ModelConfig& model) {
  std::vector<ParameterEntry> all;
  for (const auto& flat_group : plan::flat_groups(model))
    for (const auto& p : flat_group.parameters) all.push_back({p.name, p.shape, p.count(), {}});
  if (model.tied) all.front().aliases = {"head.weight"};
  return all;
}

std::vector<ParameterEntry> parameters_of(const std::vector<FlatGroupEntry>& flat_groups) {
  std::vector<ParameterEntry> all;
  for (const auto& u : flat_groups) all.insert(all.end(), u.parameters.begin(), u.parameters.end());
  return all;
}

RankBoxes boxes_of_shards(const std::vector<FlatGroupEntry>& flat_groups, int rank) {
  RankBoxes boxes;
  std::int64_t start = 0;  // start of the flat group's shard in the dataset
  std::int32_t tensor = 0;
  for (const auto& flat_group : flat_groups) {
    const auto first = rank * flat_group.shard, end = first + flat_group.shard;
    for (std::size_t i = 0; i < flat_group.parameters.size(); ++i, ++tensor) {
      const auto& p = flat_group.parameters[i];
      const auto from = std::max(first, flat_group.offsets[i]), to = std::min(end, flat_group.offsets[i] + p.count);
      if (from >= to) continue;
      auto at = start + from - first;
      for (const auto& box : boxes_of_range(p.shape, from - flat_group.offsets[i], to - from)) {
        boxes.push_back({tensor, at, box});
        at = boxes.back().end();
      }
    }
    start += flat_group.shard;
  }
  return boxes;
}

namespace {

// Knuth's two-sum: high + low is the exact sum of all terms, up to rounding in `low` alone.
[[gnu::always_inline]] inline void add_exactly(double& high, double& low, double x) {
  const double sum = high + x;
  const double from_x = sum - high;
  low += (high - (sum - from_x)) + (x - from_x);
  high = sum;
}

template <class T> void sum_squares(const T* data, std::int64_t count, Statistics& out) {
  constexpr std::int64_t lanes = 8;
  struct Sums {
    std::array<double, lanes> high{}, low{};
  };
  std::int64_t i = count / lanes * lanes;
  auto [high, low] = base::with_wide_vectors([=]() __attribute__((always_inline)) {
    Sums s;
    for (std::int64_t j = 0; j < i; j += lanes)
      for (std::size_t k = 0; k < lanes; ++k) {
        const double x = static_cast<float>(data[j + static_cast<std::int64_t>(k)]);
        add_exactly(s.high[k], s.low[k], x * x);
      }
    return s;
  });
  for (std::size_t k = 0; i < count; ++i, ++k) {
    const double x = static_cast<float>(data[i]);
    add_exactly(high[k], low[k], x * x);
  }
  for (std::size_t k = 0; k < lanes; ++k) out.add({0, high[k], low[k]});
}

}  // namespace

void Statistics::add(const Statistics& other) {
  fingerprint += other.fingerprint;
  add_exactly(squares, squares_low, other.squares);
  squares_low += other.squares_low;
}

double Statistics::norm() const { return std::sqrt(squares + squares_low); }

Statistics statistics_of(const void* data, std::int64_t count, base::DType dtype, std::int64_t first_index) {
  Statistics s;
  s.fingerprint =
      base::fingerprint(data, count, static_cast<int>(base::size_of(dtype)), static_cast<std::uint64_t>(first_index));
  if (dtype == base::DType::bf16) sum_squares(static_cast<const base::bf16*>(data), count, s);
  else sum_squares(static_cast<const float*>(data), count, s);
  return s;
}

}  // namespace trainyard::checkpoint
