// What the experts of a layer declare, save and need.
#include "libtrain/plan/blocks/experts.h"

#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/expert_registry.h"
#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/blocks/expert_scratch.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

std::int64_t of_tokens(const MicroShape& s, std::int64_t columns) {
  return base::aligned(s.rows() * columns * base::size_of(s.accumulation()));
}

std::int64_t gate_bytes(const ModelConfig& m, const MicroShape& s) {
  const auto element = base::size_of(s.accumulation());
  const auto formula = s.device == base::DeviceKind::cuda ? gpu_gate_scratch_bytes : gate_scratch_bytes;
  return formula(s.rows(), expert_count(m), m.experts.top_k, element);
}

// What the gate reads in another form than the branch's: its input, and weights.
std::int64_t widened_bytes(const ModelConfig& m, const MicroShape& s, Pass pass) {
  return gate_widens(m, s, pass) ? of_tokens(s, m.hidden) : 0;
}
std::int64_t widened_weights(const MicroShape& s, std::int64_t elements) {
  return base::is_narrow(s.dtype) ? base::aligned(elements * base::size_of(s.accumulation())) : 0;
}

// The rows that experts compute at one time: one overlap chunk.
ExpertRows chunk_rows(const MicroShape& s, ExpertRows all) {
  return {all.rows / s.experts.chunks, all.groups / s.experts.chunks};
}

// Rows of experts on their way from or to other ranks.
std::int64_t crossing_rows(const ModelConfig& m, const MicroShape& s, Pass pass) {
  return s.experts.sends_rows() && !crosses_in_rounds(m, s.experts, pass)
             ? base::aligned(expert_rows_of(m, s, pass).rows * m.hidden * s.element_bytes())
             : 0;
}

// The experts' own scratch, with the scratch of dispatch rounds if there are any.
std::int64_t in_rounds(const ModelConfig& m, const MicroShape& s, Pass pass, std::int64_t of_experts) {
  return crosses_in_rounds(m, s.experts, pass) ? round_workspace_bytes(m, s, 1, of_experts) : of_experts;
}

// In backward, the gradient of the experts' results and the gradient of their rows exist at the same time. If ranks
// send rows, the gradient of results is a buffer of its own, too.
std::int64_t backward_of_experts(const ModelConfig& m, const MicroShape& s) {
  const auto of = expert_rows_of(m, s, Pass::train);
  const auto& kind = expert_kind(m.experts.network);
  const auto scratch = kind.backward_workspace_bytes(m, s, chunk_rows(s, of));
  if (crosses_in_rounds(m, s.experts, Pass::train))  // several rounds recompute forward
    return round_workspace_bytes(m, s, 2, std::max(scratch, kind.forward_workspace_bytes(m, s, of)));
  return crossing_rows(m, s, Pass::train) + base::aligned(of.rows * m.hidden * s.element_bytes()) + scratch;
}

}  // namespace

bool gate_widens(const ModelConfig& m, const MicroShape& s, Pass pass) {
  return s.dtype != s.accumulation() || (pass == Pass::train && jitters_gate(m));
}

std::string expert_name(std::int64_t count, std::int64_t index) {
  return fmt::format("{:0{}}", index, std::max<std::size_t>(2, fmt::formatted_size("{}", count - 1)));
}

std::int64_t expert_slot_rows(const ModelConfig& m, const MicroShape& s, Pass pass) {
  if (!s.experts.is_partial() || crosses_in_rounds(m, s.experts, pass)) return 0;
  const auto capacity = expert_capacity(m.experts, expert_count(m), s.dispatch_rows(), pass);
  return capacity == 0 ? s.dispatch_rows() : capacity;
}

ExpertRows expert_rows_of(const ModelConfig& m, const MicroShape& s, Pass pass) {
  if (crosses_in_rounds(m, s.experts, pass)) return rows_of_round(m, s);
  const auto count = expert_count(m), held = count / s.experts.tensor;
  if (const auto slot = expert_slot_rows(m, s, pass); slot > 0) return {held * slot, held};
  return {expert_rows(m.experts, count, s.dispatch_rows(), pass), count};
}

std::int64_t result_rows_of(const ModelConfig& m, const MicroShape& s, Pass pass) {
  if (crosses_in_rounds(m, s.experts, pass)) return expert_rows(m.experts, expert_count(m), s.dispatch_rows(), pass);
  return s.experts.tensor * expert_rows_of(m, s, pass).rows;
}

std::optional<FeedForwardKind> beside_experts(const ModelConfig& m) {
  if (m.experts.shared > 0) return FeedForwardKind("shared");
  if (m.experts.residual) return FeedForwardKind("residual");
  return {};
}

void ExpertsKind::declare(Declaration& d) const {
  const auto& m = d.model();
  d.weight("gate.weight", expert_count(m), m.hidden);
  if (m.experts.score == GateScore::sigmoid)
    d.choice_bias("gate.bias", expert_count(m), m.experts.bias_rate, m.experts.top_k);
  if (m.experts.residual) d.weight("mix.weight", 2, m.hidden);
  const auto beside = beside_experts(m);
  if (!beside) return;
  const auto model = model_beside_experts(m);
  beside->declare_of(model, d);
}

FlatGroup ExpertsKind::own_flat_group(const ModelConfig& m, const std::string& layer, const ExpertShare& share) const {
  const auto count = expert_count(m);
  const auto& kind = expert_kind(m.experts.network);
  std::vector<std::vector<Parameter>> of_experts;
  const auto first = first_held_expert(m, share);
  for (std::int64_t e = first; e < first + held_experts(m, share); ++e) {
    Declaration d(m, fmt::format("{}.experts.{}", layer, expert_name(count, e)), Part::layers);
    kind.declare(d);
    of_experts.push_back(d.take().parameters);
  }
  // If data-parallel ranks divide the experts, the ranks with the same experts add up their gradients.
  const auto group = share.sends_rows() ? Axes{Axis::expert_data} : Axes{Axis::data};
  FlatGroup flat_group{layer + ".experts", Part::layers, group, {}, {}};
  if (share.is_partial()) flat_group.others = {Axis::expert, Axis::tensor};
  for (std::size_t p = 0; p < of_experts.front().size(); ++p)
    for (auto& parameters : of_experts) flat_group.parameters.push_back(std::move(parameters[p]));
  return flat_group;
}

// The gate's tensors, for all tokens; rows of experts; the part beside the experts, for the rank's rows of hidden
// states.
std::vector<SavedTensor> ExpertsKind::tensors(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  const auto of = expert_rows_of(m, s, pass);
  const auto wide = s.accumulation();
  const auto tokens = s.rows(), results = result_rows_of(m, s, pass), count = expert_count(m), k = m.experts.top_k;
  using base::DType;
  std::vector<SavedTensor> out{
      {"logits", wide, tokens, count},
      {"choices", DType::i32, tokens, k},
      {"rows", DType::i32, tokens, k},
      {"weights", wide, tokens, k},
      {"sources", DType::i32, SavedTensor::one_dim, results},
      {"groups", DType::i32, count, 2},
      {"loads", DType::i32, 2, count},
      {"gate_losses", DType::f64, SavedTensor::one_dim, 3},
      {"dispatched", s.dtype, of.rows, m.hidden, s.experts.is_partial() ? Stays::always : Stays::unless_selective}};
  if (s.experts.is_partial()) out.push_back({"received", DType::i32, of.groups, 2});
  if (crosses_in_rounds(m, s.experts, pass)) out.push_back({"rounds", DType::i32, SavedTensor::one_dim, 1});
  for (const auto& t : expert_kind(m.experts.network).tensors(m, s, of)) out.push_back(t);
  out.push_back({"results", s.dtype, results, m.hidden});
  if (m.experts.residual) {
    out.push_back({"mix", wide, s.own_rows(), 2});
    out.push_back({"mixed", s.dtype, s.own_rows(), m.hidden});
    out.push_back({"beside", s.dtype, s.own_rows(), m.hidden});
  }
  if (const auto beside = beside_experts(m))
    for (const auto& t : beside->tensors(model_beside_experts(m), s, pass)) out.push_back(t);
  return out;
}

// The gate; the experts; the part beside them, whose output is kept until it is added.
std::int64_t ExpertsKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  const Products p(m, s);
  const auto logits = p.product(s.rows(), expert_count(m), m.hidden, Products::Result::accumulation);
  const auto weights = widened_weights(s, expert_count(m) * m.hidden),
             bias = m.experts.score == GateScore::sigmoid ? widened_weights(s, expert_count(m)) : 0,
             crossing = crossing_rows(m, s, pass);
  const auto gate =
      widened_bytes(m, s, pass) + weights + std::max(logits, bias + std::max(gate_bytes(m, s), base::aligned(8)));
  const auto made =
      expert_kind(m.experts.network).forward_workspace_bytes(m, s, chunk_rows(s, expert_rows_of(m, s, pass)));
  // Rows on their way to experts have a buffer. With one overlap chunk, results on their way back use the same buffer.
  // With dispatch rounds each has its own.
  const auto back = s.experts.chunks > 1 ? crossing : 0;
  auto most = crosses_in_rounds(m, s.experts, pass) ? std::max(gate, crossing + in_rounds(m, s, pass, made))
                                                    : crossing + std::max(p.gathered(m.hidden) + gate, back + made);
  if (const auto beside = beside_experts(m)) {
    const auto inner = beside->forward_workspace_bytes(model_beside_experts(m), s, pass);
    most = std::max(most, (m.experts.residual ? 0 : p.stream(m.hidden)) + inner);
  }
  return most;
}

// Three gradients stay while backward runs through the experts and then the gate. They are of the weights, of the
// logits, and of the output if dropout changes it or other ranks have rows of it. The part beside the experts comes
// last, with the output's gradient for all rows.
std::int64_t ExpertsKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const auto wide = Products::Result::accumulation;
  const auto count = expert_count(m), tokens = s.rows();
  const auto output = s.sequence_parallel || m.dropout_ffn_residual > 0 ? p.rows(m.hidden) : 0,
             mix = m.experts.residual ? of_tokens(s, 2) : 0,
             small = mix + of_tokens(s, m.experts.top_k) + of_tokens(s, count) + base::aligned(8);
  const auto experts = backward_of_experts(m, s);
  // For a gate of `outputs`: the gradient of its weight, then the gradient of its input. The latter widens the weight,
  // which stays widened. A frozen gate does not read its input again.
  const bool frozen = has_adapter(m);
  const auto products = [&](std::int64_t outputs) {
    const auto inputs = widened_weights(s, outputs * m.hidden) + p.product(tokens, m.hidden, outputs, wide);
    return frozen ? inputs : std::max(p.product(outputs, m.hidden, tokens, wide), inputs);
  };
  const auto mix_gate = m.experts.residual ? widened_weights(s, count * m.hidden) + products(2) : 0;
  const auto input = frozen ? 0 : p.gathered(m.hidden) + widened_bytes(m, s, Pass::train);
  const auto gate = of_tokens(s, m.hidden) + input + std::max(products(count), mix_gate);
  auto most = small + std::max(experts, gate);
  if (const auto beside = beside_experts(m))
    most = std::max(
        most, p.stream(m.hidden) + beside->backward_workspace_bytes(model_beside_experts(m), s) - p.gathered(m.hidden));
  return output + most;
}

// Every rank chooses for all tokens and computes its own experts; then all results are gathered.
std::vector<GroupCall> ExpertsKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                 Recompute recompute, Again) const {
  Crossings calls(m, s);
  const auto rows = [&] { calls.gather(s.dtype, result_rows_of(m, s, pass) * m.hidden); };
  const bool beside = beside_experts(m).has_value(), again = pass == Pass::train && recompute == Recompute::layers;
  for (int forward = 0; forward < (again ? 2 : 1); ++forward) {
    calls.all_rows();
    rows();
    if (beside) calls.all_rows().add_up();
  }
  if (pass != Pass::train) return calls.take();
  calls.all_rows();
  if (!has_adapter(m)) calls.all_rows();  // the gate's input
  rows();
  if (m.experts.residual) calls.all_rows();
  if (m.experts.residual && s.sequence_parallel) calls.gather(s.accumulation(), s.rows() * 2);
  if (beside && !has_adapter(m)) calls.all_rows();
  if (beside) calls.add_up();
  return calls.take();
}

// Forward sends rows to their experts, with their numbers, and gets results back. Backward sends the gradients of
// results and gets the gradients of rows.
std::vector<GroupCall> ExpertsKind::expert_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                 Recompute recompute) const {
  if (!s.experts.sends_rows()) return {};
  if (crosses_in_rounds(m, s.experts, pass)) return first_round_calls(m, s, pass, recompute);
  const auto of = expert_rows_of(m, s, pass);
  const auto rows = of.rows * m.hidden * s.element_bytes();
  const std::int64_t forward = pass == Pass::train && recompute == Recompute::layers ? 2 : 1,
                     backward = pass == Pass::train ? 2 : 0;
  const std::int64_t chunks = s.experts.chunks;
  return {{"all_to_all", s.dtype, rows / chunks, chunks * (2 * forward + backward)},
          {"all_to_all", base::DType::i32, 2 * of.groups * base::size_of(base::DType::i32), forward}};
}

// For one token: the chosen experts, the gate and the part beside the experts.
double ExpertsKind::forward_flops(const ModelConfig& m, const Lengths& lengths) const {
  auto flops = static_cast<double>(m.experts.top_k) * expert_kind(m.experts.network).forward_flops(m) +
               2 * static_cast<double>(m.hidden) * static_cast<double>(expert_count(m));
  if (m.experts.residual) flops += 4 * static_cast<double>(m.hidden);
  if (const auto beside = beside_experts(m)) flops += beside->forward_flops(model_beside_experts(m), lengths);
  return flops;
}

// The rows of the rank's experts, as if they were chosen evenly: each token's rows are gathered from the hidden states,
// and their results are added.
BlockWork ExpertsKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels kernels) const {
  const auto held = std::max<std::int64_t>(1, held_experts(m, s.experts));
  const auto all = s.rows() * m.experts.top_k / s.tensor;  // of the rank's own tokens, and as many come as go
  auto of_expert = s;
  of_expert.batch = 1, of_expert.sequence = std::max<std::int64_t>(1, all / held), of_expert.tensor = 1;
  BlockWork out;
  auto model_of_expert = m;
  model_of_expert.ffn = expert_width(m);
  const auto one = FeedForwardKind().work(model_of_expert, of_expert, kernels);
  const auto times = [&](const PassWork& from, PassWork& to) {
    for (auto product : from.products) product.batch = held, to.products.push_back(product);
    to.bytes += static_cast<double>(held) * from.bytes;
  };
  times(one.forward, out.forward), times(one.backward, out.backward), times(one.weights, out.weights);
  times(one.again, out.again);
  out.linear(s.rows(), expert_count(m), m.hidden);  // the gate
  const double moved = static_cast<double>(s.element_bytes()) * static_cast<double>(all * m.hidden);
  out.forward.bytes += 4 * moved, out.backward.bytes += 4 * moved;
  if (const auto beside = beside_experts(m)) out.add(beside->work(model_beside_experts(m), s, kernels));
  if (has_adapter(m)) out.weights = {};
  return out;
}

}  // namespace trainyard::plan
