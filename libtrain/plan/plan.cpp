// Predictions and JSON of a plan.
#include "libtrain/plan/plan.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/plan/flops.h"
#include "libtrain/plan/model_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/ranges.h"

#include <limits>
#include <stdexcept>
#include <utility>

namespace trainyard::plan {

namespace {

using Json = nlohmann::ordered_json;

int small(base::JsonObject& o, const std::string& key, std::int64_t low = 0, std::int64_t high = std::numeric_limits<int>::max()) { return static_cast<int>(o.integer(key, low, high)); }

template <class E> E one_of(base::JsonObject& o, const std::string& key, const std::vector<std::pair<std::string, E>>& legal) {
  const auto text = o.text(key);
  for (const auto& [name, value] : legal)
    if (name == text) return value;
  throw base::InputError(fmt::format("{}: '{}' = {} is not known", o.where(), key, base::excerpt(text)), fmt::format("this build knows '{}' and '{}'", legal.front().first, legal.back().first));
}

const std::vector<std::pair<std::string, Reduction>> reductions = {{"ordered", Reduction::ordered}, {"fast", Reduction::fast}};
const std::vector<std::pair<std::string, Recompute>> recomputes = {{"none", Recompute::none}, {"layers", Recompute::layers}};
const std::vector<std::pair<std::string, base::DType>> dtypes = {{"f32", base::DType::f32}, {"bf16", base::DType::bf16}};

const std::vector<std::pair<std::string, base::DeviceKind>> devices = {{"cpu", base::DeviceKind::cpu}, {"cuda", base::DeviceKind::cuda}};

Json predicted_json(const Plan& p) {
  Json memory = Json::object(), traffic = Json::array();
  for (std::size_t i = 0; i < memory_categories.size(); ++i) memory[memory_categories[i]] = p.memory.categories[i];
  memory["reserve"] = p.memory.reserve;
  for (const auto& ranks : p.traffic) {
    Json operations = Json::array();
    for (const auto& t : ranks.operations) operations.push_back({{"group", t.group}, {"operation", t.operation}, {"calls", t.calls}, {"bytes", t.bytes}});
    traffic.push_back({{"first_rank", ranks.first_rank}, {"last_rank", ranks.last_rank}, {"operations", operations}});
  }
  return {{"parameters", p.parameters}, {"rank_bytes", memory}, {"step_traffic", traffic}, {"step_flops", p.flops}};
}

void read_predicted(Plan& p, base::JsonObject o, const std::string& where) {
  const int world = p.topology.world();
  p.parameters = o.integer("parameters", 0, ranges::most_stated_bytes);
  auto memory = o.object("rank_bytes");
  for (std::size_t i = 0; i < memory_categories.size(); ++i) p.memory.categories[i] = memory.integer(memory_categories[i], 0, ranges::most_stated_bytes);
  p.memory.reserve = memory.integer("reserve", 0, ranges::most_stated_bytes);
  memory.done();
  for (const auto& item : o.array("step_traffic")) {
    base::JsonObject ranks(item, where + ": step_traffic");
    const int first = small(ranks, "first_rank", 0, world - 1);
    RankTraffic t{first, small(ranks, "last_rank", first, world - 1), {}};
    for (const auto& each : ranks.array("operations")) {
      base::JsonObject operation(each, where + ": operations");
      t.operations.push_back({operation.text("group"), operation.text("operation"), operation.integer("calls", 0, ranges::most_stated_bytes), operation.integer("bytes", 0, ranges::most_stated_bytes)});
      operation.done();
    }
    ranks.done();
    p.traffic.push_back(std::move(t));
  }
  p.flops = o.number("step_flops");
  if (!(p.flops >= 0)) throw base::InputError(fmt::format("{}: 'step_flops' must be at least 0, found {}", where, p.flops), "make the plan again with partition-model");
  o.done();
}

Topology read_topology(base::JsonObject& o, const std::string& where) {
  std::vector<Topology::Axis> axes;
  std::int64_t ranks = 1;
  for (const auto& item : o.array("topology")) {
    base::JsonObject axis(item, where + ": topology");
    axes.push_back({axis.text("axis"), small(axis, "size", 1, ranges::most_stated_ranks)});
    axis.done();
    ranks *= axes.back().size;
    if (ranks > ranges::most_stated_ranks) throw base::InputError(fmt::format("{}: topology: more than {} ranks", where, ranges::most_stated_ranks), "make the plan again with partition-model");
  }
  try {
    return Topology(std::move(axes));
  } catch (const std::invalid_argument& e) {
    throw base::InputError(fmt::format("{}: topology: {}", where, base::excerpt(e.what())), "make the plan again with partition-model");
  }
}

}  // namespace

void predict(Plan& p) {
  p.stage_boundaries = {0, p.model.layers};
  p.parameters = parameter_count(p.model);
  p.memory = rank_memory(p.model, p.states(), p.micro(), p.recompute);
  p.flops = step_flops(p.model, p.global_batch, p.sequence, p.recompute);
  p.traffic.clear();
  const int n = p.topology.world(), busy = p.batch().contributors(p.batch().turns() - 1);
  p.traffic.push_back({0, busy - 1, step_traffic(p.model, p.states(), p.reduction, 0)});
  if (busy < n) p.traffic.push_back({busy, n - 1, step_traffic(p.model, p.states(), p.reduction, n - 1)});
}

std::string to_json(const Plan& p) {
  Json topology = Json::array();
  for (const auto& axis : p.topology.axes()) topology.push_back({{"axis", axis.name}, {"size", axis.size}});
  Json j;
  j["format"] = plan_format;
  j["model"] = model_to_json(p.model);
  j["topology"] = topology;
  j["stage_boundaries"] = p.stage_boundaries;
  j["zero"] = p.zero;
  j["micro_batch"] = p.micro_batch;
  j["global_batch"] = p.global_batch;
  j["sequence"] = p.sequence;
  j["fold"] = p.fold;
  j["schedule"] = p.schedule;
  j["reduction"] = p.reduction == Reduction::ordered ? "ordered" : "fast";
  j["recompute"] = p.recompute == Recompute::none ? "none" : "layers";
  j["dtype"] = base::name_of(p.dtype);
  j["gradient_dtype"] = base::name_of(p.gradient_dtype);
  j["layer_slots"] = p.layer_slots;
  j["threads"] = p.threads;
  j["device"] = p.device == base::DeviceKind::cuda ? "cuda" : "cpu";
  j["device_memory"] = p.device_memory;
  j["predicted"] = predicted_json(p);
  return j.dump(2) + "\n";
}

Plan plan_from_json(const std::string& text, const std::string& where) {
  const auto j = base::parse_json(text, where);
  base::JsonObject o(j, where);
  const auto format = o.text("format");
  if (format != plan_format) throw base::InputError(fmt::format("{}: format is {}, expected {}", where, base::excerpt(format), plan_format), "give a file that partition-model wrote");
  Plan p;
  p.model = model_from_json(o.at("model"), where + ": model", "make the plan again with partition-model");
  p.topology = read_topology(o, where);
  for (const auto& b : o.array("stage_boundaries")) {
    if (!b.is_number_unsigned() || b.get<std::uint64_t>() > static_cast<std::uint64_t>(ranges::most_stated_bytes))
      throw base::InputError(fmt::format("{}: 'stage_boundaries' must be whole numbers of at least 0", where), "make the plan again with partition-model");
    p.stage_boundaries.push_back(b.get<std::int64_t>());
  }
  p.zero = small(o, "zero");
  p.micro_batch = o.integer("micro_batch");
  p.global_batch = o.integer("global_batch");
  p.sequence = o.integer("sequence");
  p.fold = o.integer("fold");
  p.schedule = o.text("schedule");
  p.reduction = one_of(o, "reduction", reductions);
  p.recompute = one_of(o, "recompute", recomputes);
  p.dtype = one_of(o, "dtype", dtypes);
  p.gradient_dtype = one_of(o, "gradient_dtype", dtypes);
  p.layer_slots = small(o, "layer_slots");
  p.threads = small(o, "threads");
  p.device = o.has("device") && one_of(o, "device", devices) == base::DeviceKind::cuda ? base::DeviceKind::cuda : base::DeviceKind::cpu;
  p.device_memory = o.integer("device_memory");
  read_predicted(p, o.object("predicted"), where);
  o.done();
  p.memory.on_host = p.device == base::DeviceKind::cuda ? p.memory.categories.back() : 0;   // the save snapshot
  if (const auto wrong = decision_problems(p); !wrong.empty())
    throw base::InputError(fmt::format("{}: {}", where, text_of(wrong)), wrong.size() == 1 ? wrong[0].hint : "make another plan with partition-model");
  return p;
}

}  // namespace trainyard::plan
