// Predictions and JSON of a plan.
#include "libtrain/plan/plan.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/field_json.h"
#include "libtrain/plan/flops.h"
#include "libtrain/plan/model_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/ranges.h"
#include "libtrain/plan/schedule.h"

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

Json predicted_json(const Plan& p) {
  Json memory = Json::object(), traffic = Json::array();
  for (std::size_t i = 0; i < memory_categories.size(); ++i) memory[memory_categories[i]] = p.memory.categories[i];
  memory["reserve"] = p.memory.reserve;
  for (const auto& ranks : p.traffic) {
    Json operations = Json::array();
    for (const auto& t : ranks.operations)
      operations.push_back({{"group", t.group}, {"operation", t.operation}, {"calls", t.calls}, {"bytes", t.bytes}});
    traffic.push_back({{"first_rank", ranks.first_rank}, {"last_rank", ranks.last_rank}, {"operations", operations}});
  }
  return {{"parameters", p.parameters}, {"rank_bytes", memory}, {"step_traffic", traffic}, {"step_flops", p.flops}};
}

void read_predicted(Plan& p, base::JsonObject o, const std::string& where) {
  const int world = p.topology.world();
  p.parameters = o.integer("parameters", 0, ranges::most_stated_bytes);
  auto memory = o.object("rank_bytes");
  for (std::size_t i = 0; i < memory_categories.size(); ++i)
    p.memory.categories[i] = memory.integer(memory_categories[i], 0, ranges::most_stated_bytes);
  p.memory.reserve = memory.integer("reserve", 0, ranges::most_stated_bytes);
  memory.done();
  for (const auto& item : o.array("step_traffic")) {
    base::JsonObject ranks(item, where + ": step_traffic");
    const int first = small(ranks, "first_rank", 0, world - 1);
    RankTraffic t{first, small(ranks, "last_rank", first, world - 1), {}};
    for (const auto& each : ranks.array("operations")) {
      base::JsonObject operation(each, where + ": operations");
      t.operations.push_back({operation.text("group"), operation.text("operation"),
                              operation.integer("calls", 0, ranges::most_stated_bytes),
                              operation.integer("bytes", 0, ranges::most_stated_bytes)});
      operation.done();
    }
    ranks.done();
    p.traffic.push_back(std::move(t));
  }
  p.flops = o.number("step_flops");
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

// Keys that version 1 did not have from its beginning: a file without one means the default, and one that would say the
// default leaves it out.
bool may_be_left_out(const base::Field& f) { return f.name == "tensor" || f.name == "sequence-parallel"; }

}  // namespace

std::vector<base::Field> fields_of(Plan& p) {
  base::FieldVisitor v;
  v("schedule", p.schedule, "How", "of a step");
  v("gradient-dtype", p.gradient_dtype, "How", "of gradients: f32, bf16", dtype_names());
  v("device", p.device, "How", "where the ranks compute: cpu or cuda (other scratch, the save snapshot on the host)",
    device_names());
  v("device-memory", p.device_memory, "How", "bytes of one rank; 0: not stated", {0, base::most_bytes});
  auto all = v.take();
  for (auto& f : fields_of(static_cast<Cut&>(p))) all.push_back(std::move(f));
  std::vector<base::Field> ordered;
  for (const char* name :
       {"zero", "micro-batch", "global-batch", "sequence", "fold", "schedule", "reduction", "recompute", "dtype",
        "gradient-dtype", "tensor", "sequence-parallel", "layer-slots", "threads", "device", "device-memory"})
    ordered.push_back(base::field_named(all, name, "a plan"));
  return ordered;
}

std::vector<SizedCalls> all_step_calls(const Plan& p, int rank) {
  const int data_rank = p.topology.coordinate(rank, Axis::data);
  auto calls = step_calls(p.model, p.states(), p.reduction, data_rank);
  for (auto& c : tensor_calls(p.model, p.micro(), Pass::train, p.recompute, p.batch().micros_of(data_rank)))
    calls.push_back(std::move(c));
  return calls;
}

std::vector<Traffic> all_validation_traffic(const Plan& p, std::int64_t sequences) {
  auto traffic = validation_traffic(p.model, p.states(), sequences);
  for (auto& t : added_up(
           tensor_calls(p.model, p.micro(), Pass::evaluate, Recompute::none, validation_rounds(p.batch(), sequences))))
    traffic.push_back(std::move(t));
  return traffic;
}

void predict(Plan& p) {
  p.stage_boundaries = {0, p.model.layers};
  p.parameters = parameter_count(p.model);
  p.memory = rank_memory(p.model, p.states(), p.micro(), p.recompute, p.slots());
  p.flops = step_flops(p.model, p.global_batch, p.sequence, p.recompute);
  p.traffic.clear();
  const int n = p.topology.world(), busy = p.tensor * p.batch().contributors(p.batch().rounds() - 1);
  p.traffic.push_back({0, busy - 1, added_up(all_step_calls(p, 0))});
  if (busy < n) p.traffic.push_back({busy, n - 1, added_up(all_step_calls(p, n - 1))});
}

nlohmann::ordered_json json_of(const Plan& p) {
  Json topology = Json::array();
  for (const auto& axis : p.topology.axes()) topology.push_back({{"axis", name_of(axis.axis)}, {"size", axis.size}});
  Json j;
  j["format"] = plan_format;
  j["model"] = model_to_json(p.model);
  j["topology"] = topology;
  j["stage_boundaries"] = p.stage_boundaries;
  auto copy = p;
  Plan usual;
  const auto usual_fields = fields_of(usual);
  for (std::size_t i = 0; const auto& f : fields_of(copy))
    if (const auto& other = usual_fields[i++]; !may_be_left_out(f) || f.get() != other.get()) j[key_of(f)] = json_of(f);
  j["predicted"] = predicted_json(p);
  return j;
}

// Rank 0 has a micro-batch wherever another has.
int Plan::slots() const { return schedule == "one-stage" ? 1 : slots_of(actions(*this, 0), 1).front(); }

std::string sharing_text(const Plan& p) {
  if (p.tensor == 1) return {};
  return fmt::format(" in {} of {} that share every layer of {}{}",
                     base::counted(p.topology.size(Axis::data), "replica"), p.tensor,
                     base::counted(p.model.lanes, "lane"), p.sequence_parallel ? ", and its rows" : "");
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
  for (const auto& b : o.array("stage_boundaries")) {
    if (!b.is_number_unsigned() || b.get<std::uint64_t>() > static_cast<std::uint64_t>(ranges::most_stated_bytes))
      throw base::InputError(fmt::format("{}: 'stage_boundaries' must be whole numbers of at least 0", where),
                             "make the plan again with partition-model");
    p.stage_boundaries.push_back(b.get<std::int64_t>());
  }
  for (auto& f : fields_of(p))
    if ((f.name != "device" && !may_be_left_out(f)) || o.has(key_of(f))) set_from(o, f);  // or from before GPUs
  read_predicted(p, o.object("predicted"), where);
  o.done();
  p.memory.on_host = p.device == base::DeviceKind::cuda ? p.memory.categories.back() : 0;  // the save snapshot
  if (const auto wrong = decision_problems(p); !wrong.empty())  // no flag of who reads the plan mends it
    throw base::InputError(fmt::format("{}: {}", where, text_of(wrong)),
                           "make another plan with partition-model" + (wrong.size() == 1 ? ": " + wrong[0].hint : ""));
  return p;
}

}  // namespace trainyard::plan
