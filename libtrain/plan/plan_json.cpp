// Writes and reads plans.
#include "libtrain/plan/plan_json.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/stage_table.h"
#include "libtrain/plan/step_time.h"

#include <fmt/ranges.h>

#include <limits>
#include <stdexcept>
#include <utility>

namespace trainyard::plan {

namespace {

using Json = nlohmann::ordered_json;

int small(base::JsonObject& o, const std::string& key, std::int64_t low = 0,
          std::int64_t high = std::numeric_limits<int>::max()) {
  return static_cast<int>(o.integer(key, low, high));
}

Json bytes_json(const MemoryBytes& bytes) {
  Json memory = Json::object();
  for (const auto& entry : base::memory_categories)
    if (const auto n = bytes.categories[entry.category]; entry.shows(n)) memory[entry.key] = n;
  memory["reserve"] = bytes.reserve;
  return memory;
}

MemoryBytes read_bytes(base::JsonObject memory, base::DeviceKind device) {
  MemoryBytes bytes;
  for (const auto& entry : base::memory_categories)
    if (entry.shows(0) || memory.has(entry.key))
      bytes.categories[entry.category] = memory.integer(entry.key, 0, ranges::most_stated_bytes);
  bytes.reserve = memory.integer("reserve", 0, ranges::most_stated_bytes);
  memory.done();
  bytes.on_host = bytes.categories.elsewhere(device);
  return bytes;
}

Json predicted_json(const Plan& p) {
  Json traffic = Json::array();
  for (const auto& ranks : p.traffic) {
    Json operations = Json::array();
    for (const auto& t : ranks.operations)
      operations.push_back(
          {{"group", name_of(t.group)}, {"operation", t.operation}, {"calls", t.calls}, {"bytes", t.bytes}});
    Json j{{"first_rank", ranks.first_rank}, {"last_rank", ranks.last_rank}};
    if (ranks.runs > 1) j["runs"] = ranks.runs, j["stride"] = ranks.stride;
    j["operations"] = operations;
    traffic.push_back(std::move(j));
  }
  Json j{{"parameters", p.parameters}};
  if (has_experts(p.model)) j["active_parameters"] = p.active_parameters;
  j["rank_bytes"] = bytes_json(p.memory);
  if (p.pipeline > 1) {
    j["stage_bytes"] = Json::array();
    for (const auto& bytes : p.stage_memory) j["stage_bytes"].push_back(bytes_json(bytes));
  }
  j["step_traffic"] = traffic;
  j["step_flops"] = p.flops;
  if (p.disk.space > 0)
    j["rank_disk"] = {{"space", p.disk.space}, {"step_read", p.disk.read}, {"step_written", p.disk.written}};
  if (p.link != LinkBytes{}) j["rank_link"] = {{"step_down", p.link.down}, {"step_up", p.link.up}};
  if (p.step.known()) {
    Json parts = Json::object();
    for (const auto& [key, seconds] : p.step.parts) parts[key] = seconds;
    j["step_seconds"] = {{"machine", p.step.machine},
                         {"median", p.step.median},
                         {"low", p.step.low},
                         {"high", p.step.high},
                         {"parts", parts}};
  }
  return j;
}

PredictedStep read_step(base::JsonObject o) {
  PredictedStep step{o.text("machine"), o.number("median"), o.number("low"), o.number("high"), {}};
  auto parts = o.object("parts");
  for (const auto& part : step_time_parts)
    if (parts.has(part.key)) step.parts.emplace_back(part.key, parts.number(part.key));
  parts.done(), o.done();
  return step;
}

void read_predicted(Plan& p, base::JsonObject o, const std::string& where) {
  const int world = p.topology.world();
  p.parameters = p.active_parameters = o.integer("parameters", 0, ranges::most_stated_bytes);
  if (has_experts(p.model)) p.active_parameters = o.integer("active_parameters", 0, p.parameters);
  p.memory = read_bytes(o.object("rank_bytes"), p.device);
  p.stage_memory = {p.memory};
  if (p.pipeline > 1) {
    p.stage_memory.clear();
    for (const auto& item : o.array("stage_bytes"))
      p.stage_memory.push_back(read_bytes(base::JsonObject(item, where + ": stage_bytes"), p.device));
    if (std::ssize(p.stage_memory) != p.pipeline)
      throw base::InputError(
          fmt::format("{}: 'stage_bytes' has {} stages, 'pipeline' says {}", where, p.stage_memory.size(), p.pipeline),
          "make the plan again with partition-model");
  }
  for (const auto& item : o.array("step_traffic")) {
    base::JsonObject ranks(item, where + ": step_traffic");
    const int first = small(ranks, "first_rank", 0, world - 1);
    RankTraffic t;
    t.first_rank = first, t.last_rank = small(ranks, "last_rank", first, world - 1);
    if (ranks.has("runs")) {
      t.stride = small(ranks, "stride", t.last_rank - first + 1, world);
      t.runs = small(ranks, "runs", 2, 1 + (world - 1 - t.last_rank) / t.stride);
    }
    for (const auto& each : ranks.array("operations")) {
      base::JsonObject operation(each, where + ": operations");
      t.operations.push_back({call_group_named(operation.text("group"), where + ": operations"),
                              operation.text("operation"), operation.integer("calls", 0, ranges::most_stated_bytes),
                              operation.integer("bytes", 0, ranges::most_stated_bytes)});
      operation.done();
    }
    ranks.done();
    p.traffic.push_back(std::move(t));
  }
  p.flops = o.number("step_flops");
  if (o.has("rank_disk")) {
    auto disk = o.object("rank_disk");
    p.disk.space = disk.integer("space", 1, ranges::most_stated_bytes);
    p.disk.read = disk.integer("step_read", 0, ranges::most_stated_bytes);
    p.disk.written = disk.integer("step_written", 0, ranges::most_stated_bytes);
    disk.done();
  }
  if (o.has("rank_link")) {
    auto link = o.object("rank_link");
    p.link.down = link.integer("step_down", 0, ranges::most_stated_bytes);
    p.link.up = link.integer("step_up", 0, ranges::most_stated_bytes);
    link.done();
  }
  if (o.has("step_seconds")) p.step = read_step(o.object("step_seconds"));
  if (!(p.flops >= 0))
    throw base::InputError(fmt::format("{}: 'step_flops' must be at least 0, found {}", where, p.flops),
                           "make the plan again with partition-model");
  o.done();
}

Topology read_topology(base::JsonObject& o, const std::string& where) {
  std::vector<AxisSize> axes;
  std::int64_t ranks = 1;
  for (const auto& item : o.array("topology")) {
    base::JsonObject axis(item, where + ": topology");
    const auto name = axis.text("axis");
    axes.push_back({axis_named(name, where + ": topology"), small(axis, "size", 1, ranges::most_stated_ranks)});
    if (is_of_second_reading(axes.back().axis))
      throw base::InputError(fmt::format("{}: topology: '{}' is a second reading of 'data', which '{}' says, and no "
                                         "axis beside it",
                                         where, name,
                                         name.starts_with("zero")        ? "zero_group"
                                         : name.starts_with("reduction") ? "reduction_ranks_per_node"
                                                                         : "expert_parallel"),
                             "make the plan again with partition-model");
    axis.done();
    ranks *= axes.back().size;
    if (ranks > ranges::most_stated_ranks)
      throw base::InputError(fmt::format("{}: topology: more than {} ranks", where, ranges::most_stated_ranks),
                             "make the plan again with partition-model");
  }
  try {
    return Topology(std::move(axes));
  } catch (const std::invalid_argument& e) {
    throw base::InputError(fmt::format("{}: topology: {}", where, base::excerpt(e.what())),
                           "make the plan again with partition-model");
  }
}

// In a file without such a key it has its default. A file that is written leaves such a key out if it has its default.
bool may_be_left_out(const base::Field& f) { return f.has(base::FieldTrait::later_in_plans); }

// A value that resembles no known value has no hint, so it gets this one.
void set_decision(base::JsonObject& o, base::Field& f) {
  try {
    set_from(o, f);
  } catch (const base::InputError& e) {
    if (!e.hint().empty()) throw;
    throw base::InputError(e.what(), "make the plan again with partition-model");
  }
}

std::vector<std::int64_t> read_boundaries(base::JsonObject& o, const std::string& where) {
  std::vector<std::int64_t> out;
  for (const auto& b : o.array("stage_boundaries")) {
    if (!b.is_number_unsigned() || b.get<std::uint64_t>() > static_cast<std::uint64_t>(ranges::most_stated_bytes))
      throw base::InputError(fmt::format("{}: 'stage_boundaries' must be whole numbers of at least 0", where),
                             "make the plan again with partition-model");
    out.push_back(b.get<std::int64_t>());
  }
  return out;
}

// Boundaries follow from the partition. Before there were pipeline stages they counted layers.
void require_boundaries(const Plan& p, const std::vector<std::int64_t>& given, const std::string& where) {
  const bool of_layers = p.stages.parts() == 1 && given == std::vector<std::int64_t>{0, p.model.layers};
  if (given == p.stages.boundaries || of_layers) return;
  throw base::InputError(base::text("{}: the stage boundaries are [{}], $partition {} of {} makes [{}]", where,
                                    fmt::join(given, ", "), base::one_line(p.partition),
                                    base::counted(p.stages.parts(), "part"), fmt::join(p.stages.boundaries, ", ")),
                         "make the plan again with partition-model");
}

}  // namespace

nlohmann::ordered_json json_of(const Plan& p) {
  Json topology = Json::array();
  for (const auto& axis : p.topology.axes()) topology.push_back({{"axis", name_of(axis.axis)}, {"size", axis.size}});
  Json j;
  j["format"] = plan_format;
  j["model"] = model_to_json(p.model);
  j["topology"] = topology;
  j["stage_boundaries"] = p.stages.boundaries;
  auto copy = p;
  Plan usual;
  const auto usual_fields = fields_of(usual);
  for (std::size_t i = 0; const auto& f : fields_of(copy))
    if (const auto& other = usual_fields[i++]; !may_be_left_out(f) || f.get() != other.get())
      j[f.name == "pipeline-schedule" ? "schedule" : key_of(f)] = json_of(f);
  j["predicted"] = predicted_json(p);
  return j;
}

std::string to_json(const Plan& p) { return json_of(p).dump(2) + "\n"; }

Plan plan_from_json(const std::string& text, const std::string& where) {
  const auto j = base::parse_json(text, where);
  base::JsonObject o(j, where);
  const auto format = o.text("format");
  if (format != plan_format)
    throw base::InputError(fmt::format("{}: format is {}, expected {}", where, base::excerpt(format), plan_format),
                           "give a file that partition-model wrote");
  Plan p;
  p.model = model_from_json(o.at("model"), where + ": model", "make the plan again with partition-model");
  p.topology = read_topology(o, where);
  const auto boundaries = read_boundaries(o, where);
  for (auto& f : fields_of(p)) {
    if (f.name == "pipeline-schedule") f.name = "schedule";
    if ((f.name != "device" && !may_be_left_out(f)) || o.has(key_of(f)))
      set_decision(o, f);  // plans from before GPUs have no device
  }
  if (p.topology.size(Axis::data) % p.expert_parallel == 0)
    p.topology = p.topology.with_experts(p.expert_parallel, expert_node_of(p));
  const int replicas = p.topology.size(Axis::data);
  p.topology =
      p.topology.with_zero_groups(zero_group_of(p, replicas)).with_reduction_nodes(reduction_node_of(p, replicas));
  read_predicted(p, o.object("predicted"), where);
  // Keys of partition-model --json; they follow from the others.
  for (const auto* reported : report_keys) o.has(reported);
  o.done();
  if (const auto wrong = decision_problems(p); !wrong.empty())  // no flag of the program that reads the plan fixes it
    throw base::InputError(
        fmt::format("{}: {}", where, as_one(wrong).message),
        "make another plan with partition-model" + (as_one(wrong).hint.empty() ? "" : ": " + as_one(wrong).hint));
  p.stages = stages_of(p);
  require_boundaries(p, boundaries, where);
  return p;
}

}  // namespace trainyard::plan
