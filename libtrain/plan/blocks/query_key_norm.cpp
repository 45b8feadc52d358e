// What norms of queries and keys declare, save and need.
#include "libtrain/plan/blocks/query_key_norm.h"

#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <optional>

namespace trainyard::plan {

namespace {

std::int64_t sums_bytes(const MicroShape& s, std::int64_t elements) {
  return base::aligned(elements * base::size_of(s.accumulation()));
}

// Sums of this rank's lanes, and of the lanes of all ranks; `width` of each lane.
std::int64_t lane_sums_bytes(const ModelConfig& m, const MicroShape& s, std::int64_t width) {
  const auto mine = Widths(m, s.tensor).lanes * width;
  return sums_bytes(s, mine) + (s.tensor > 1 ? sums_bytes(s, s.tensor * mine) : 0);
}

std::int64_t rows_of_sums(const ModelConfig& m, const MicroShape& s) {
  const Widths w(m, s.tensor);
  return norms_heads(m) ? w.heads + w.kv_heads : 2;
}

}  // namespace

void declare_query_key_norms(Declaration& d) {
  const auto& m = d.model();
  if (!norms_queries_and_keys(m)) return;
  const Init initial{m.norm_offset == 1 ? Init::Kind::zeros : Init::Kind::ones, 0};
  const auto weight = [&](const char* name, std::int64_t width) {
    const auto sharded = norms_heads(m) ? std::optional<ShardedDim>() : ShardedDim{0, Axis::tensor};
    d.parameter(name, {norms_heads(m) ? m.head_dim() : width}, initial, Decay::no, sharded);
  };
  weight("attention.q_norm.weight", m.query_width());
  weight("attention.k_norm.weight", m.key_value_width());
}

void add_query_key_tensors(const ModelConfig& m, const MicroShape& s, Pass pass, std::vector<SavedTensor>& to) {
  if (!norms_queries_and_keys(m)) return;
  const Widths w(m, s.tensor);
  to.push_back({"qk_squares", s.accumulation(), rows_of_sums(m, s), s.rows()});
  if (pass == Pass::train && s.weight_gradients == WeightGradients::apart)
    to.push_back(
        {"qk_norm_gradients", s.accumulation(), SavedTensor::one_dim, norms_heads(m) ? 2 * m.head_dim() : w.q + w.kv});
  to.push_back({"qk", s.dtype, s.rows(), w.q + w.kv, Stays::unless_selective});
}

std::int64_t query_key_forward_bytes(const ModelConfig& m, const MicroShape& s) {
  return norms_width(m) ? lane_sums_bytes(m, s, 2 * s.rows()) : 0;
}

std::int64_t query_key_backward_bytes(const ModelConfig& m, const MicroShape& s) {
  if (!norms_queries_and_keys(m)) return 0;
  const Widths w(m, s.tensor);
  const auto along = sums_bytes(s, rows_of_sums(m, s) * s.rows()), each = base::size_of(s.accumulation());
  if (norms_width(m))
    return along + (has_adapter(m) ? sums_bytes(s, w.q + w.kv) : 0) +
           std::max(lane_sums_bytes(m, s, 2 * s.rows()), column_sum_scratch_bytes(s.rows(), std::max(w.q, w.kv), each));
  const auto mine =
      has_adapter(m) ? sums_bytes(s, w.lanes * 2 * m.head_dim()) : lane_sums_bytes(m, s, 2 * m.head_dim());
  return along + mine + column_sum_scratch_bytes(s.rows(), w.lanes * m.head_dim(), each);
}

std::vector<GroupCall> query_key_calls(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute recompute) {
  if (!norms_queries_and_keys(m)) return {};
  const auto lanes = s.tensor * Widths(m, s.tensor).lanes;
  const bool train = pass == Pass::train;
  Crossings calls(m, s);
  if (norms_width(m)) {
    const int times = 1 + (train ? 1 : 0) + (train && recompute == Recompute::layers ? 1 : 0);
    for (int i = 0; i < times; ++i) calls.gather(s.accumulation(), lanes * 2 * s.rows());
  } else if (train && !has_adapter(m)) {
    calls.gather(s.accumulation(), lanes * 2 * m.head_dim());
  }
  return calls.take();
}

void add_query_key_work(const ModelConfig& m, const MicroShape& s, BlockWork& to) {
  if (!norms_queries_and_keys(m)) return;
  const Widths w(m, s.tensor);
  const double tensor =
      static_cast<double>(s.rows()) * static_cast<double>(w.q + w.kv) * static_cast<double>(s.element_bytes());
  to.forward.bytes += 3 * tensor;
  to.backward.bytes += (2 + 2 + 3) * tensor;
  to.again.bytes += 2 * tensor;
}

}  // namespace trainyard::plan
