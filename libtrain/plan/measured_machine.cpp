// Rates of a profile as a machine.
#include "libtrain/plan/measured_machine.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/step_time.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace trainyard::plan {

namespace {

constexpr const char* exchange_of_stages = "exchange";

// The value with most threads, which is what a rank has.
double local_rate(const Profile& profile, const std::string& name) {
  const LocalRate* best = nullptr;
  for (const auto& rate : profile.local)
    if (rate.name == name && (best == nullptr || rate.threads > best->threads)) best = &rate;
  return best == nullptr ? 0 : best->value;
}

// Of attention in a dtype, as a share of its products; 0: not measured.
double attention_share(const Profile& profile, base::DType dtype) {
  const auto products = product_rate(profile, dtype);
  std::vector<double> rates;
  for (const auto& rate : profile.local)
    if (rate.name.starts_with("attention.") && rate.shape.ends_with(base::name_of(dtype))) rates.push_back(rate.value);
  return products && !rates.empty() ? std::min(1.0, base::median(std::move(rates)) / *products) : 0;
}

// Of the largest size that was measured, as a link's bandwidth: what a rank sends a second.
double largest_link_rate(const Profile& profile) {
  double best = 0;
  for (const auto& s : profile.communication)
    if (!s.points.empty())
      best = std::max(best, static_cast<double>(s.points.back().bytes) * bus_factor(s.operation, s.ranks) /
                                s.points.back().seconds);
  return best;
}

// Of each turn through the blocks: what a block took then over what it took in the median, in the median of all blocks.
std::vector<double> turns(const Profile& profile) {
  std::vector<double> out;
  for (std::size_t turn = 0;; ++turn) {
    std::vector<double> blocks;
    for (const auto& rate : profile.local)
      if (rate.name.starts_with("block.") && rate.unit == "s" && rate.repeats.size() > turn && rate.value > 0)
        blocks.push_back(rate.repeats[turn] / rate.value);
    if (blocks.empty()) return out;
    out.push_back(base::median(std::move(blocks)));
  }
}

}  // namespace

MeasuredMachine::MeasuredMachine(const Profile& profile)
    : blocks(profile), update_rate(local_rate(profile, "adamw")), threads(profile.threads), ranks(profile.ranks),
      communication_(profile.communication), several_nodes_(profile.nodes.size() > 1) {
  const auto folders = measured_folders(profile);
  if (folders.together) storage = *folders.together;
  else if (!folders.folders.empty()) storage = folders.folders.front().rates;
  const double of_a_node = std::ceil(profile.ranks / std::max<double>(1, static_cast<double>(profile.nodes.size())));
  if (profile.cores > 0 && profile.device == "cpu")
    ranks_of_core = std::max(1.0, of_a_node * profile.threads / profile.cores),
    spare_cores = profile.cores >= of_a_node * (profile.threads + 1);
  if (auto all = turns(profile); !all.empty()) {
    const auto most = base::prediction_interval(std::move(all));
    if (most.low > 0) at_times_faster = std::max(1.0, 1 / most.low);
    at_times_slower = std::max(1.0, most.high);
  }
}

// Of one node any group of as many ranks will do. Of several nodes the group must have the same name, or be the world,
// because links inside of a node are others.
const CommSeries* MeasuredMachine::series_of(const std::string& operation, const std::string& group, int ranks,
                                             base::DType type) const {
  const CommSeries* best = nullptr;
  const auto name = base::name_of(type);
  // Smaller is nearer: the number of ranks, the dtype, the name, then as many groups at the same time as there can be.
  const auto far = [&](const CommSeries& s) {
    return 100 * std::abs(std::log2(static_cast<double>(s.ranks) / ranks)) +
           (s.type == name || !adds(operation) ? 0 : 1) - 1e-3 * s.groups - (s.group == group ? 0.5 : 0);
  };
  for (const auto& s : communication_)
    if (s.operation == operation && !s.fit.segments.empty() &&
        (!several_nodes_ || s.group == group || (s.group == "world" && s.ranks == ranks)) &&
        (best == nullptr || far(s) < far(*best)))
      best = &s;
  return best;
}

std::optional<double> MeasuredMachine::seconds(const SizedCalls& c) const {
  const auto [group, measured] = measured_as(c.group, c.operation);
  if (measured == exchange_of_stages) return message_seconds(static_cast<double>(c.bytes) / c.ranks);
  const auto* s = series_of(measured, group, c.ranks, c.type);
  if (s == nullptr) return {};
  return s->fit.seconds(c.bytes) * bus_factor(measured, c.ranks) / bus_factor(measured, s->ranks);
}

std::optional<double> MeasuredMachine::message_seconds(double bytes) const {
  const auto* s = series_of(exchange_of_stages, name_of(Axis::pipe), 2, base::DType::f32);
  return s == nullptr ? std::nullopt : std::optional(s->fit.seconds(static_cast<std::int64_t>(bytes)));
}

Machine measured_machine(const Profile& profile, const std::string& where) {
  const auto need = [&](double rate, const char* what) {
    if (rate <= 0)
      throw base::InputError(fmt::format("{} has no rates of {}, so a step has no time", where, what),
                             "profile-comm --blocks auto measures what a planner needs");
    return rate;
  };
  Machine m;
  m.name = std::filesystem::path(where).stem().string();
  const auto nodes = std::max<int>(1, static_cast<int>(profile.nodes.size()));
  m.devices_per_node = (profile.ranks + nodes - 1) / nodes;
  m.device = profile.device == "cpu" ? base::DeviceKind::cpu : base::DeviceKind::cuda;
  m.cores = profile.cores;
  m.flops_32bit = product_rate(profile, base::DType::f32).value_or(0);
  m.flops_16bit = product_rate(profile, base::DType::bf16).value_or(0);
  need(std::max(m.flops_16bit, m.flops_32bit), "products");
  m.attention_share = attention_share(profile, m.flops_16bit > 0 ? base::DType::bf16 : base::DType::f32);
  if (m.attention_share == 0) m.attention_share = attention_share(profile, base::DType::f32);
  if (m.attention_share == 0) m.attention_share = 1;
  m.memory_bandwidth = need(local_rate(profile, "memory.copy"), "memory");
  m.product_share = m.memory_share = m.link_share = m.network_share = 1;
  (nodes == 1 ? m.link_bandwidth : m.network_bandwidth) = largest_link_rate(profile);
  if (nodes > 1) m.link_bandwidth = m.network_bandwidth, m.network_bandwidth *= m.devices_per_node;
  m.host_link_bandwidth = std::min(local_rate(profile, "copy.to_device"), local_rate(profile, "copy.from_device"));
  m.host_bandwidth = local_rate(profile, "host.copy");
  auto measured = std::make_shared<MeasuredMachine>(profile);
  m.disk_read = measured->storage.read * m.devices_per_node;
  m.disk_write = measured->storage.written * m.devices_per_node;
  m.measured = std::move(measured);
  return m;
}

Machine machine_at(const std::string& name_or_file) {
  std::error_code error;
  if (is_machine_name(name_or_file) ||
      (!name_or_file.ends_with(".json") && !std::filesystem::exists(name_or_file, error)))
    return load_machine(name_or_file);
  // Read once: it may be a pipe.
  const auto text = base::read_file(name_or_file, base::largest_description);
  const auto first = text.find_first_not_of(" \t\r\n");
  if (!name_or_file.ends_with(".json") && (first == std::string::npos || text[first] != '{'))
    return machine_of_toml(text, name_or_file);
  return measured_machine(profile_from_json(text, name_or_file), name_or_file);
}

std::string measured_otherwise(const Plan& plan, const Machine& machine) {
  if (!machine.measured) return {};
  const auto& of = *machine.measured;
  std::vector<std::string> out;
  if (plan.device == base::DeviceKind::cpu && plan.threads != of.threads)
    out.push_back(
        fmt::format("it was measured with {}, and a rank has {}", base::counted(of.threads, "thread"), plan.threads));
  if (plan.topology.world() != of.ranks)
    out.push_back(fmt::format("{} measured together, and the plan has {}", base::counted(of.ranks, "rank"),
                              plan.topology.world()));
  if (const auto blocks = unmeasured_blocks(plan, machine); !blocks.empty())
    out.push_back(fmt::format("{} of this model were not measured and are estimated from products and memory",
                              base::listed(blocks, "and")));
  return out.empty() ? "" : fmt::format("{}: {}", machine.name, fmt::join(out, "; "));
}

}  // namespace trainyard::plan
