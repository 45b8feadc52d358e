// Judges plans.
#include "libtrain/plan/problems.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

std::string gigabytes(std::int64_t bytes) {
  return bytes >= 1'000'000'000 ? fmt::format("{:.3f} GB", static_cast<double>(bytes) * 1e-9) : fmt::format("{:.3f} MB", static_cast<double>(bytes) * 1e-6);
}

// Remedies that make the plan smaller, each alone, with what it would need.
std::string remedies(const Plan& plan) {
  std::vector<std::string> out;
  const auto price = [&](const std::string& flag, Plan other) {
    if (!decision_problems(other).empty()) return;
    const auto need = rank_memory(other.model, other.states(), other.micro(), other.recompute).total();
    if (need < plan.memory.total()) out.push_back(fmt::format("{} would need {}{}", flag, gigabytes(need), need <= plan.device_memory ? " and fits" : ""));
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
  if (plan.topology.size("data") < (1 << 20)) {
    auto other = plan;
    other.topology = Topology({{"data", 2 * plan.topology.size("data")}});
    price(fmt::format("--ranks {}", 2 * plan.topology.size("data")), other);
  }
  return out.empty() ? "a smaller model or a device with more memory" : fmt::format("{}", fmt::join(out, "; "));
}

}  // namespace

std::vector<Problem> decision_problems(const Plan& p) {
  std::vector<Problem> out;
  for (const auto& text : problems(p.model)) out.push_back({"model: " + text, "change the model description"});
  const auto range = [&](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) out.push_back({fmt::format("{} = {} must lie between {} and {}", name, value, low, high), fmt::format("give a value from {} to {}", low, high)});
  };
  range("zero", p.zero, 0, 3);
  range("global-batch", p.global_batch, 1, std::int64_t{1} << 32);
  range("micro-batch", p.micro_batch, 1, std::int64_t{1} << 24);
  range("fold", p.fold, 1, std::int64_t{1} << 32);
  range("threads", p.threads, 1, 4096);
  range("layer-slots", p.layer_slots, 1, 10000);
  range("sequence", p.sequence, 1, std::max<std::int64_t>(p.model.context, 1));
  range("device-memory", p.device_memory, 0, std::int64_t{1} << 62);
  if (p.topology.size("data") != p.topology.world())
    out.push_back({fmt::format("the topology has {} ranks but its data axis {}", p.topology.world(), p.topology.size("data")), "cut over the axis 'data' alone"});
  if (p.schedule != "one-stage") out.push_back({fmt::format("schedule '{}' is not known", p.schedule), "use one-stage"});
  if (!p.stage_boundaries.empty() && p.stage_boundaries != std::vector<std::int64_t>{0, p.model.layers})
    out.push_back({"the stage boundaries are not those of one stage", fmt::format("use [0, {}]", p.model.layers)});
  if (p.micro_batch < 1 || p.global_batch < 1 || p.fold < 1) return out;
  if (p.global_batch % p.micro_batch != 0)
    out.push_back({fmt::format("global-batch {} is not a multiple of micro-batch {}", p.global_batch, p.micro_batch),
                   fmt::format("--global-batch {}", (p.global_batch / p.micro_batch + 1) * p.micro_batch)});
  else if (p.fold > p.batch().micros())
    out.push_back({fmt::format("fold {} exceeds the {} micro-batches of a step", p.fold, p.batch().micros()), fmt::format("--fold {} at most", p.batch().micros())});
  else if (p.topology.size("data") > p.batch().groups())
    out.push_back({fmt::format("{} data ranks but only {} groups of micro-batches in a step: some ranks would never work", p.topology.size("data"), p.batch().groups()),
                   fmt::format("at most {} ranks, a larger --global-batch, or a smaller --micro-batch or --fold", p.batch().groups())});
  return out;
}

std::vector<Problem> memory_problems(const Plan& p) {
  if (p.device_memory <= 0 || p.memory.total() <= p.device_memory) return {};
  return {{fmt::format("a rank needs {} ({} in arenas, {} reserve) but has {}: {} too much", gigabytes(p.memory.total()), gigabytes(p.memory.arenas()),
                       gigabytes(p.memory.reserve), gigabytes(p.device_memory), gigabytes(p.memory.total() - p.device_memory)),
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
  for (std::size_t i = 0; i < list.size(); ++i) out += fmt::format("\n  {}. {} (try: {})", i + 1, list[i].message, list[i].hint);
  return out;
}

}  // namespace trainyard::plan
