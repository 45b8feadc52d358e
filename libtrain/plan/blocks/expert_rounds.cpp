// What dispatch rounds need and send.
#include "libtrain/plan/blocks/expert_rounds.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr auto index_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));

// Rounds for `groups` groups of `rows` rows each to one destination, if a round has room for `room` rows.
std::int64_t rounds_of(std::int64_t groups, std::int64_t rows, std::int64_t room) {
  const auto together = std::max<std::int64_t>(1, room / std::max<std::int64_t>(1, rows));
  return (groups + together - 1) / together;
}

}  // namespace

bool has_capacity(const ExpertConfig& e, Pass pass) {
  const bool same = pass == Pass::train || e.evaluation_capacity_factor == "same";
  return (same ? e.capacity_factor : e.evaluation_capacity_factor) != "none";
}

bool crosses_in_rounds(const ModelConfig& m, const ExpertShare& share, Pass pass) {
  return share.sends_rows() && share.tensor == 1 && !has_capacity(m.experts, pass);
}

std::int64_t round_rows(const ModelConfig& m, const MicroShape& s) {
  if (s.expert_capacity_buffer > 0) return s.expert_capacity_buffer;
  const std::int64_t parts = s.experts.across(), sent = m.experts.top_k * s.dispatch_rows(),
                     usual = (5 * sent + 4 * parts - 1) / (4 * parts);
  return std::clamp(
      usual, s.dispatch_rows(),
      std::max<std::int64_t>(1, std::min(m.experts.top_k, held_experts(m, s.experts))) * s.dispatch_rows());
}

std::int64_t round_row_bytes(const ModelConfig& m, const MicroShape& s) {
  return rows_of_round(m, s).rows * m.hidden * s.element_bytes();
}
std::int64_t round_group_bytes(const ModelConfig& m) { return 2 * expert_count(m) * index_bytes; }

ExpertRows rows_of_round(const ModelConfig& m, const MicroShape& s) {
  return {s.experts.across() * round_rows(m, s), expert_count(m)};
}

std::int64_t round_workspace_bytes(const ModelConfig& m, const MicroShape& s, std::int64_t buffers,
                                   std::int64_t of_experts) {
  const auto rows = base::aligned(round_row_bytes(m, s));
  return 2 * base::aligned(round_group_bytes(m)) + 2 * base::aligned(rows_of_round(m, s).rows * index_bytes) +
         base::aligned(m.experts.top_k * s.dispatch_rows() * index_bytes) + buffers * rows + std::max(rows, of_experts);
}

std::vector<GroupCall> first_round_calls(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute recompute) {
  const std::int64_t forward = pass == Pass::train && recompute == Recompute::layers ? 2 : 1,
                     backward = pass == Pass::train ? 2 : 0;
  return {{"all_to_all", s.dtype, round_row_bytes(m, s), 2 * forward + backward},
          {"all_to_all", base::DType::i32, round_group_bytes(m), forward},
          {"all_reduce", base::DType::i32, index_bytes, forward}};
}

std::int64_t even_rounds(const ModelConfig& m, const MicroShape& s) {
  const auto count = expert_count(m), each = (m.experts.top_k * s.dispatch_rows() + count - 1) / count;
  return rounds_of(count / s.experts.across(), each, round_rows(m, s));
}

std::int64_t most_alike_rounds(const ModelConfig& m, const MicroShape& s) {
  return rounds_of(std::min(m.experts.top_k, expert_count(m) / s.experts.across()), s.dispatch_rows(),
                   round_rows(m, s));
}

}  // namespace trainyard::plan
