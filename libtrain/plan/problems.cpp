// Judges plans.
#include "libtrain/plan/problems.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/extent.h"
#include "libtrain/plan/inventory.h"
#include "libtrain/plan/limits.h"
#include "libtrain/plan/ranges.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

// What makes the plan smaller, each alone, with what it would need: what fits; where nothing does, what comes nearer. A
// hundredth less is no remedy.
std::string remedies(const Plan& plan) {
  std::vector<std::string> fitting, others;
  const auto price = [&](const std::string& flag, const Plan& other) {
    if (!decision_problems(other).empty()) return;
    const auto need = rank_memory(other.model, other.states(), other.micro(), other.recompute).total();
    auto& list = need <= plan.device_memory ? fitting : others;
    if (need <= plan.device_memory || need < plan.memory.total() - plan.memory.total() / 100)
      list.push_back(fmt::format("{} would need {}{}", flag, base::size_text(need),
                                 need <= plan.device_memory ? " and fits" : ""));
  };
  for (int zero = plan.zero + 1; zero <= 3; ++zero) {
    auto other = plan;
    other.zero = zero;
    price(fmt::format("--zero {}", zero), other);
  }
  if (plan.micro_batch > 1) {
    auto other = plan;
    other.micro_batch = 1;
    price("--micro-batch 1", other);
  }
  if (plan.recompute == Recompute::none) {
    auto other = plan;
    other.recompute = Recompute::layers;
    price("--recompute layers", other);
  }
  if (plan.dtype == base::DType::f32) {
    auto other = plan;
    other.dtype = base::DType::bf16;
    price("--dtype bf16", other);
  }
  if (plan.topology.size(Axis::data) < (1 << 20)) {
    auto other = plan;
    other.topology = Topology({{Axis::data, 2 * plan.topology.size(Axis::data)}});
    price(fmt::format("{} ranks", 2 * plan.topology.size(Axis::data)), other);
  }
  if (!fitting.empty()) return fmt::format("{}", fmt::join(fitting, "; "));
  const std::string last = "a smaller model or a device with more memory";
  return others.empty() ? last : fmt::format("{}: none of these alone is enough: {}", last, fmt::join(others, "; "));
}

std::vector<Problem> range_problems(const Plan& p) {
  std::vector<Problem> out;
  const auto range = [&](const char* flag, auto value, auto range) {
    if (!range.holds(value))
      out.push_back({fmt::format("{} {} must lie between {} and {}", flag, value, range.low, range.high),
                     fmt::format("give a value from {} to {}", range.low, range.high)});
  };
  range("--ranks", p.topology.world(), ranges::ranks);
  range("--zero", p.zero, ranges::zero);
  range("--global-batch", p.global_batch, ranges::global_batch);
  range("--micro-batch", p.micro_batch, ranges::micro_batch);
  range("--fold", p.fold, ranges::fold);
  range("--threads", p.threads, ranges::threads);
  range("--layer-slots", p.layer_slots, ranges::layer_slots);
  range("--sequence", p.sequence, ranges::sequence);
  range("--device-memory", p.device_memory, base::Range<std::int64_t>{0, base::most_bytes});
  return out;
}

std::int64_t largest_divisor(std::int64_t of, std::int64_t at_most) {
  for (auto d = std::min(of, at_most); d > 1; --d)
    if (of % d == 0) return d;
  return 1;
}

void batch_problems(const Plan& p, std::vector<Problem>& out);

// The smallest micro-batch with which the batch is legal; 0: there is none.
std::int64_t legal_micro_batch(Plan p) {
  for (p.micro_batch = (p.global_batch + ranges::most_micros - 1) / ranges::most_micros;
       ranges::micro_batch.holds(p.micro_batch) && p.micro_batch <= p.global_batch; ++p.micro_batch) {
    if (p.global_batch % p.micro_batch != 0) continue;
    std::vector<Problem> wrong;
    batch_problems(p, wrong);
    if (wrong.empty()) return p.micro_batch;
  }
  return 0;
}

void batch_problems(const Plan& p, std::vector<Problem>& out) {
  const auto say = [&](std::string message, std::string hint) { out.push_back({std::move(message), std::move(hint)}); };
  if (p.global_batch % p.micro_batch != 0)
    return say(fmt::format("--global-batch {} is not a multiple of --micro-batch {}", p.global_batch, p.micro_batch),
               fmt::format("--global-batch {}", (p.global_batch / p.micro_batch + 1) * p.micro_batch));
  const auto batch = p.batch();
  const int ranks = p.topology.size(Axis::data);
  if (batch.micros() > ranges::most_micros) {
    const auto micro = legal_micro_batch(p);
    return say(
        fmt::format("--global-batch {} makes {} micro-batches of a step, more than {}", p.global_batch, batch.micros(),
                    ranges::most_micros),
        micro > 0 ? fmt::format("--micro-batch {}, or a smaller --global-batch", micro) : "a smaller --global-batch");
  }
  if (batch.micros() % p.fold != 0)
    return say(fmt::format("--fold {} does not divide the {} micro-batches of a step", p.fold, batch.micros()),
               fmt::format("--fold {}", largest_divisor(batch.micros(), p.fold)));
  if (ranks > batch.fold_groups())
    say(fmt::format("{} ranks, but a step has only {} group{} of micro-batches: some ranks would never work", ranks,
                    batch.fold_groups(), batch.fold_groups() == 1 ? "" : "s"),
        fmt::format("raise --global-batch to {}, lower --micro-batch or --fold, or use fewer ranks",
                    ranks * p.micro_batch * p.fold));
}

// Elements whose counters are equal would be dropped together (kernels/dropout/dropout.h). Dropout of attention
// probabilities has counters of its own, which are large enough.
void dropout_problems(const Plan& p, std::vector<Problem>& out) {
  if (!drops_rows(p.model)) return;
  const auto beyond = [&](const char* what, std::int64_t value, std::int64_t most) {
    if (value > most)
      out.push_back({fmt::format("{} {} with dropout: its random numbers are counted up to {} and would repeat", what,
                                 value, most),
                     "set dropout-embedding, dropout-attention-residual and dropout-ffn-residual to 0"});
  };
  beyond("a hidden of", p.model.hidden, most_hidden_with_dropout);
  beyond("--sequence", p.sequence, most_sequence_with_dropout);
}

// What block kinds may declare, but no store can do yet. Layers are alike: the first speaks for all.
void unit_problems(const Plan& p, std::vector<Problem>& out) {
  for (const auto& segment : segments(p.model))
    for (const auto& unit : segment.kind->units(p.model, 0)) {
      if (unit.group != Axes{Axis::data})
        out.push_back({fmt::format("unit '{}' adds up its gradients over '{}': that can be done over 'data' alone",
                                   unit.name, name_of(unit.group)),
                       "declare the unit without a group"});
      for (const auto& parameter : unit.parameters)
        if (parameter.cut && parameter.cut->axis != Axis::tensor)
          out.push_back({fmt::format("dim {} of '{}' is cut over '{}': that can be done over 'tensor' alone",
                                     parameter.cut->dim, parameter.name, name_of(parameter.cut->axis)),
                         "declare the parameter without a cut"});
    }
}

void extent_problems(const Plan& p, std::vector<Problem>& out) {
  const auto size = extent(p);
  if (size.memory > largest_extent)
    out.push_back({fmt::format("a rank would need up to {:.2g} bytes: that is too large to be planned", size.memory),
                   "a smaller model, --micro-batch or --sequence"});
  if (size.traffic > largest_extent)
    out.push_back(
        {fmt::format("a rank would send up to {:.2g} bytes in a step: that is too large to be planned", size.traffic),
         "a smaller --global-batch, a larger --micro-batch, or a larger --fold"});
}

}  // namespace

bool drops_rows(const ModelConfig& m) {
  return m.dropout_embedding > 0 || m.dropout_attention_residual > 0 || m.dropout_ffn_residual > 0;
}

std::vector<Problem> decision_problems(const Plan& p) {
  auto out = range_problems(p);
  for (const auto& text : problems(p.model))
    out.push_back({"model: " + text, "change the model: train --help-model describes its keys"});
  if (p.sequence > p.model.context)
    out.push_back({fmt::format("--sequence {} is longer than the model's context {}", p.sequence, p.model.context),
                   fmt::format("--sequence {} at most", p.model.context)});
  if (p.topology.size(Axis::data) != p.topology.world())
    out.push_back(
        {fmt::format("the topology has {} ranks but its data axis {}", p.topology.world(), p.topology.size(Axis::data)),
         "cut over the axis 'data' alone"});
  if (p.schedule != "one-stage")
    out.push_back({fmt::format("schedule '{}' is not known", p.schedule), "use one-stage"});
  if (!p.stage_boundaries.empty() && p.stage_boundaries != std::vector<std::int64_t>{0, p.model.layers})
    out.push_back({"the stage boundaries are not those of one stage", fmt::format("use [0, {}]", p.model.layers)});
  dropout_problems(p, out);
  if (ranges::global_batch.holds(p.global_batch) && ranges::micro_batch.holds(p.micro_batch) &&
      ranges::fold.holds(p.fold))
    batch_problems(p, out);
  if (out.empty()) unit_problems(p, out);
  if (out.empty()) extent_problems(p, out);
  return out;
}

std::vector<Problem> memory_problems(const Plan& p) {
  if (p.device_memory <= 0 || p.memory.total() <= p.device_memory) return {};
  return {{fmt::format("a rank needs {} ({} in arenas, {} reserve) but has {}: {} too much",
                       base::size_text(p.memory.total()), base::size_text(p.memory.arenas()),
                       base::size_text(p.memory.reserve), base::size_text(p.device_memory),
                       base::size_text(p.memory.total() - p.device_memory)),
           remedies(p)}};
}

std::vector<Problem> problems(const Plan& p, int world) {
  auto out = decision_problems(p);
  if (p.topology.world() != world)
    out.push_back({fmt::format("the plan is for {} ranks, the world has {}", p.topology.world(), world),
                   fmt::format("start {} ranks, or make a plan with --ranks {}", p.topology.world(), world)});
  if (!decision_problems(p).empty()) return out;
  auto fresh = p;
  predict(fresh);
  for (auto& problem : memory_problems(fresh)) out.push_back(std::move(problem));
  return out;
}

std::string text_of(const std::vector<Problem>& list) {
  if (list.size() == 1) return list[0].message;
  std::string out = fmt::format("{} things are wrong:", list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    out += fmt::format("\n  {}. {} (try: {})", i + 1, list[i].message, list[i].hint);
  return out;
}

}  // namespace trainyard::plan
