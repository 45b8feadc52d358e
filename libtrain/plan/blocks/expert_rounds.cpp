// What dispatch rounds need, send and cost.
#include "libtrain/plan/blocks/expert_rounds.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr auto index_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));

bool bounded(const ExpertConfig& e, Pass pass) {
  const bool same = pass == Pass::train || e.evaluation_capacity_factor == "same";
  return (same ? e.capacity_factor : e.evaluation_capacity_factor) != "none";
}

std::int64_t bytes_of_rows(const ModelConfig& m, const MicroShape& s) {
  return rows_of_round(m, s).rows * m.hidden * s.element_bytes();
}
std::int64_t bytes_of_groups(const ModelConfig& m) { return 2 * expert_count(m) * index_bytes; }

// Rounds for `groups` groups of `rows` rows each to one destination, if a round has room for `room` rows.
std::int64_t rounds_of(std::int64_t groups, std::int64_t rows, std::int64_t room) {
  const auto together = std::max<std::int64_t>(1, room / std::max<std::int64_t>(1, rows));
  return (groups + together - 1) / together;
}

ModelConfig layer_of(const Plan& p, std::int64_t layer) {
  auto m = layer_model(p.model, layer);
  m.experts.held = {p.expert_parallel, 0, 1, 1, p.expert_ranks_per_node};
  return m;
}

// The numbers of the model's layers that have experts.
std::vector<std::int64_t> layers_with_experts(const ModelConfig& m) {
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    if (layer_has_experts(m, layer)) out.push_back(layer);
  return out;
}

// The most of any layer. With a different number of experts in each layer, a rank may hold fewer experts than a token
// chooses.
std::int64_t most_round_rows(const Plan& p) {
  std::int64_t most = 0;
  for (const auto layer : layers_with_experts(p.model))
    most = std::max(most, round_rows(layer_of(p, layer), p.micro()));
  return most;
}

}  // namespace

bool crosses_in_rounds(const ModelConfig& m, Pass pass) {
  const auto& held = m.experts.held;
  return held.across() > 1 && held.tensor == 1 && !bounded(m.experts, pass);
}

bool crosses_in_rounds(const Plan& p) {
  return has_experts(p.model) && p.expert_parallel > 1 && p.tensor == 1 &&
         !(bounded(p.model.experts, Pass::train) && bounded(p.model.experts, Pass::evaluate));
}

std::int64_t round_rows(const ModelConfig& m, const MicroShape& s) {
  if (s.expert_capacity_buffer > 0) return s.expert_capacity_buffer;
  const std::int64_t parts = m.experts.held.across(), sent = m.experts.top_k * s.rows(),
                     usual = (5 * sent + 4 * parts - 1) / (4 * parts);
  return std::clamp(usual, s.rows(), std::max<std::int64_t>(1, std::min(m.experts.top_k, held_experts(m))) * s.rows());
}

ExpertRows rows_of_round(const ModelConfig& m, const MicroShape& s) {
  return {m.experts.held.across() * round_rows(m, s), expert_count(m)};
}

std::int64_t round_workspace_bytes(const ModelConfig& m, const MicroShape& s, std::int64_t buffers,
                                   std::int64_t of_experts) {
  const auto rows = base::aligned(bytes_of_rows(m, s));
  return 2 * base::aligned(bytes_of_groups(m)) + 2 * base::aligned(rows_of_round(m, s).rows * index_bytes) +
         base::aligned(m.experts.top_k * s.rows() * index_bytes) + buffers * rows + std::max(rows, of_experts);
}

std::vector<GroupCall> first_round_calls(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute recompute) {
  const std::int64_t forward = pass == Pass::train && recompute == Recompute::layers ? 2 : 1,
                     backward = pass == Pass::train ? 2 : 0;
  return {{"all_to_all", s.dtype, bytes_of_rows(m, s), 2 * forward + backward},
          {"all_to_all", base::DType::i32, bytes_of_groups(m), forward},
          {"all_reduce", base::DType::i32, index_bytes, forward}};
}

std::vector<SizedCalls> further_round_calls(const Plan& p, std::span<const FurtherRounds> of_layers) {
  std::vector<SizedCalls> out;
  const auto layers = layers_with_experts(p.model);
  for (std::size_t i = 0; i < of_layers.size() && i < layers.size(); ++i) {
    const auto& made = of_layers[i];
    if (made.forward + made.backward + made.again == 0) continue;
    const auto m = layer_of(p, layers[i]);
    const auto add = [&](base::DType type, std::int64_t bytes, std::int64_t calls) {
      for (auto& c : expert_group_calls(m.experts.held, {"all_to_all", type, bytes, calls}, 1))
        out.push_back(std::move(c));
    };
    add(p.dtype, bytes_of_rows(m, p.micro()), 2 * made.forward + 2 * made.backward + made.again);
    add(base::DType::i32, bytes_of_groups(m), made.forward + made.again);
  }
  return out;
}

std::int64_t even_rounds(const ModelConfig& m, const MicroShape& s) {
  const auto count = expert_count(m), each = (m.experts.top_k * s.rows() + count - 1) / count;
  return rounds_of(count / m.experts.held.across(), each, round_rows(m, s));
}

std::int64_t most_alike_rounds(const ModelConfig& m, const MicroShape& s) {
  return rounds_of(std::min(m.experts.top_k, expert_count(m) / m.experts.held.across()), s.rows(), round_rows(m, s));
}

std::string rounds_text(const Plan& p, base::Sizes sizes) {
  if (!has_experts(p.model)) return {};
  const auto layers = layers_with_experts(p.model);
  const auto shape = p.micro();
  auto m = layer_of(p, layers.front());
  if (p.tensor > 1 || !crosses_in_rounds(m, Pass::train)) return {};
  const auto micros = p.batch().lockstep_micros();
  const std::int64_t forwards = p.recompute == Recompute::layers ? 2 : 1;
  std::vector<FurtherRounds> further;
  std::int64_t rounds = 0, even = 0, rows = 0;
  for (const auto layer : layers) {
    m = layer_of(p, layer);
    const auto here = most_alike_rounds(m, shape);
    rounds = std::max(rounds, here), even = std::max(even, even_rounds(m, shape));
    rows = std::max(rows, p.expert_parallel * std::min(m.experts.top_k, held_experts(m)) * shape.rows());
    const auto again = here > 1 ? p.expert_parallel * here : 0;
    further.push_back({micros * forwards * (here - 1), micros * std::max<std::int64_t>(0, again - 1), micros * again});
  }
  std::int64_t bytes = 0;
  for (const auto& t : added_up(further_round_calls(p, further))) bytes += t.bytes;
  return fmt::format(
      "  experts without a capacity get their tokens in rounds of {} tokens a rank:\n    even load: {}\n    all tokens "
      "choose the same experts: {}, which send {} more a step{},\n    and one rank's experts compute {} tokens in a "
      "layer\n",
      most_round_rows(p), base::counted(even, "round"), base::counted(rounds, "round"), base::size_text(bytes, sizes),
      p.pipeline > 1 ? " over all stages" : "", rows);
}

BufferProblem expert_buffer_problem(const Plan& p) {
  const bool rounds = crosses_in_rounds(p);
  if (rounds && static_cast<double>(p.expert_parallel) * static_cast<double>(most_round_rows(p)) > 0x7fffffff)
    return {fmt::format("{} ranks that send one another {} tokens in a dispatch round exceed 2147483647, the most that "
                        "can be counted",
                        p.expert_parallel, most_round_rows(p)),
            "a smaller --micro-batch or --expert-parallel"};
  if (p.expert_capacity_buffer == 0) return {};
  if (!has_experts(p.model))
    return {fmt::format("--expert-capacity-buffer {} needs experts, and the model has none", p.expert_capacity_buffer),
            "leave it out, or choose a model with experts (train --help-model)"};
  const auto given = fmt::format("--expert-capacity-buffer {}", p.expert_capacity_buffer);
  if (p.expert_parallel == 1)
    return {given + " needs expert parallelism, and --expert-parallel is 1", "leave it out, or --expert-parallel 2"};
  if (p.tensor > 1)
    return {fmt::format(
                "{} is for dispatch rounds; with {} tensor-parallel ranks experts have places for all tokens instead",
                given, p.tensor),
            "leave it out, or --tensor-parallel 1"};
  if (!rounds)
    return {
        given +
            " is for experts without a capacity, and the experts of this model have one, in training and in evaluation",
        "leave it out, or choose a model whose experts-capacity-factor is none"};
  const auto tokens = p.micro_batch * p.sequence;
  if (p.expert_capacity_buffer < tokens)
    return {fmt::format(
                "{} is less than one expert may get: a micro-batch has {} tokens (--micro-batch {} of --sequence {})",
                given, tokens, p.micro_batch, p.sequence),
            fmt::format("--expert-capacity-buffer {}, or a smaller --micro-batch", tokens)};
  std::int64_t most = 0;
  for (const auto count : p.model.experts.count)
    most = std::max(most, std::min(p.model.experts.top_k, count / p.expert_parallel) * tokens);
  if (p.expert_capacity_buffer > most)
    return {fmt::format("{} is more than a rank can have for another rank, {}", given, most),
            fmt::format("--expert-capacity-buffer {} at most", most)};
  return {};
}

}  // namespace trainyard::plan
