// Checks a gate and its choices, lays out scratch and dispatches.
#include "kernels/gate/gate.h"

#include "kernels/check.h"
#include "kernels/gate/gate_args.h"
#include "kernels/gpu_kernels.h"
#include "libtrain/plan/blocks/expert_scratch.h"

namespace trainyard::kernels {

namespace {

// Limits of the random-number keys: positions in a sequence, and numbers for each position.
constexpr std::int64_t keyed_positions = std::int64_t{1} << 20, keyed_columns = std::int64_t{1} << 14;

GateKeys keys_of(const Gate& gate, std::int64_t tokens, std::int64_t columns) {
  TRAINYARD_ASSERT(gate.samples != nullptr && gate.sequence > 0 && tokens % gate.sequence == 0 &&
                       gate.sequence <= keyed_positions && columns <= keyed_columns,
                   "random numbers of {} tokens in sequences of {}, {} for each", tokens, gate.sequence, columns);
  return {.seed = gate.seed,
          .noise_site = gate.noise_site,
          .overflow_site = gate.overflow_site,
          .samples = gate.samples,
          .sequence = gate.sequence};
}

template <class Memory>
auto* integers(const base::ViewOf<Memory>& v, std::int64_t count, const char* operation, const char* what) {
  require_type(v, base::DType::i32, operation, what);
  TRAINYARD_ASSERT(v.count() == count && v.dense(), "{}: expected {}, found {}", what, count, v.count());
  return count > 0 ? v.template ptr<std::int32_t>() : nullptr;
}

// Checks what both passes read, and sets it in `a`.
void set_gate(GateArgs& a, const char* operation, const Gate& gate, const base::ConstView& logits,
              const GateChosen& choice) {
  require_types(logits, accumulation_types, operation, "logits");
  require_type(choice.weights, logits.dtype, operation, "choice.weights");
  const auto tokens = logits.rows(), choices = tokens * gate.top_k;
  TRAINYARD_ASSERT(tokens > 0 && logits.cols() == gate.experts && gate.top_k >= 1 && gate.top_k <= gate.experts &&
                       choices <= std::int64_t{INT32_MAX},
                   "{} of {} experts for {} x {} logits", gate.top_k, gate.experts, tokens, logits.cols());
  TRAINYARD_ASSERT(gate.capacity >= 0 && gate.slot_rows >= 0 &&
                       (gate.slot_rows == 0 || gate.slot_rows >= (gate.capacity > 0 ? gate.capacity : tokens)),
                   "{} places in {} rows for each of {} experts", gate.capacity, gate.slot_rows, gate.experts);
  TRAINYARD_ASSERT(choice.weights.count() == choices && choice.weights.dense(), "{} weights for {} choices",
                   choice.weights.count(), choices);
  a.tokens = tokens, a.experts = gate.experts, a.top_k = gate.top_k;
  a.capacity = gate.capacity, a.slot_rows = gate.slot_rows;
  a.overflow = gate.overflow, a.score = gate.score, a.noise = gate.noise;
  a.by_choice = plan::places_by_choice(gate.placement, gate.top_k);
  a.balance_all = plan::balances_all(gate.balance_over, gate.top_k);
  a.weigh = plan::weights_of(gate.weights, gate.top_k);
  a.scale = gate.scale, a.expert_groups = gate.groups, a.top_groups = gate.top_groups;
  TRAINYARD_ASSERT(gate.groups >= 1 && gate.groups <= plan::most_gate_groups && gate.experts % gate.groups == 0 &&
                       gate.top_groups >= 1 && gate.top_groups <= gate.groups &&
                       gate.top_groups * (gate.experts / gate.groups) >= gate.top_k,
                   "{} of {} experts out of {} of {} groups", gate.top_k, gate.experts, gate.top_groups, gate.groups);
  TRAINYARD_ASSERT(a.by_choice || a.balance_all || gate.top_k == 1, "first choices of {} that are placed together",
                   gate.top_k);
  TRAINYARD_ASSERT(gate.top_k > 1 || a.weigh == plan::GateWeights::scores, "one weight divided by itself");
  a.logits = mat(logits);
  a.chosen = integers(choice.experts, choices, operation, "choice.experts");
  a.rows = integers(choice.rows, choices, operation, "choice.rows");
  a.loads = integers(choice.loads, 2 * gate.experts, operation, "choice.loads");
}

void set_gate_scratch(tensor::Arena& scratch, GateForwardArgs& a, tensor::Exec& exec) {
  const auto blocks = plan::gate_blocks(a.tokens), choices = a.tokens * a.top_k,
             element = std::int64_t{a.logits.type == Type::f64 ? 8 : 4};
  const auto take = [&scratch]<class T>(T*& to, std::int64_t count, std::int64_t bytes = sizeof(T)) {
    to = static_cast<T*>(scratch.allocate_bytes(count * bytes));
  };
  if (exec.on_gpu()) {
    take(a.block_numbers, blocks * (a.experts + 2));
    take(a.token_numbers, a.tokens * plan::gate_token_numbers);
    take(a.block_counts, blocks * 2 * a.experts);
  } else {
    take(a.block_numbers, blocks * plan::gate_block_numbers(a.experts, a.top_k));
  }
  a.scores = scratch.allocate_bytes(choices * element);
  take(a.order_keys, choices);
  take(a.order, choices);
  take(a.ends, 2 * a.experts + 1);
}

}  // namespace

void gate_forward(tensor::Exec& exec, const Gate& gate, base::ConstView logits, base::ConstView bias,
                  const GateChoice& choice) {
  constexpr const char* operation = "gate_forward";
  GateForwardArgs a;
  set_gate(a, operation, gate, logits, choice);
  const auto choices = a.tokens * a.top_k;
  a.to.chosen = integers(choice.experts, choices, operation, "choice.experts");
  a.to.rows = integers(choice.rows, choices, operation, "choice.rows");
  a.to.loads = integers(choice.loads, 2 * gate.experts, operation, "choice.loads");
  a.to.weights = choice.weights.data;
  a.threads = exec.threads();
  if (bias) {
    require_type(bias, logits.dtype, operation, "bias");
    TRAINYARD_ASSERT(bias.count() == gate.experts && bias.dense(), "{} biases for {} experts", bias.count(),
                     gate.experts);
    a.bias = bias.data;
  }
  if (gate.noise == plan::GateNoise::gumbel || (gate.capacity > 0 && gate.overflow == plan::Overflow::random))
    a.keys = keys_of(gate, a.tokens, gate.experts);
  require_type(choice.losses, base::DType::f64, operation, "choice.losses");
  TRAINYARD_ASSERT(choice.losses.count() == 3, "{} losses of a gate", choice.losses.count());
  a.to.losses = choice.losses.ptr<double>();
  a.to.groups = integers(choice.groups, 2 * gate.experts, operation, "choice.groups");
  a.source_rows = choice.sources.count();
  a.to.sources = integers(choice.sources, a.source_rows, operation, "choice.sources");
  exec.run([&exec, a]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    set_gate_scratch(exec.scratch(), a, exec);
    TRAINYARD_CALL(exec, gate_forward, a);
    for (std::int64_t e = 0; !exec.on_gpu() && e < a.experts; ++e) {
      const auto end = a.to.groups[2 * e] + a.to.groups[2 * e + 1];
      TRAINYARD_ASSERT(a.to.groups[2 * e + 1] == 0 || end <= a.source_rows, "expert {} has rows up to {} of {}", e, end,
                       a.source_rows);
    }
  });
}

void gate_backward(tensor::Exec& exec, const GateBackward& g) {
  constexpr const char* operation = "gate_backward";
  GateBackwardArgs a;
  set_gate(a, operation, g.gate, g.logits, g.choice);
  a.threads = exec.threads();
  require_shape(g.d_logits, a.tokens, a.experts, "gradient of logits");
  require_shape(g.d_weights, a.tokens, a.top_k, "gradient of weights");
  require_type(g.d_logits, g.logits.dtype, operation, "d_logits");
  require_type(g.d_weights, g.logits.dtype, operation, "d_weights");
  TRAINYARD_ASSERT(g.scale.targets != nullptr || (g.scale.balance == 0 && g.scale.z == 0),
                   "losses of a gate without its target tokens: {} and {}", g.scale.balance, g.scale.z);
  a.d_weights = mat(g.d_weights), a.d_logits = mat(g.d_logits);
  a.balance = g.scale.balance, a.z = g.scale.z, a.targets = g.scale.targets;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, gate_backward, a); });
}

void gate_jitter(tensor::Exec& exec, const Gate& gate, base::ConstView x, base::View y) {
  require_shape(y, x.rows(), x.cols(), "jitter");
  require_working_type("gate_jitter", {{"x", x}, {"y", y}});
  if (x.count() == 0) return;
  const GateJitterArgs a{
      .x = mat(x), .keys = keys_of(gate, x.rows(), x.cols()), .y = mat(y), .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, gate_jitter, a); });
}

}  // namespace trainyard::kernels
