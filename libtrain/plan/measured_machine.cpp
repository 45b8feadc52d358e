// Rates of a profile as a machine.
#include "libtrain/plan/measured_machine.h"

#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/plan/communication_time.h"

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

double median_rate(const Profile& profile, const std::string& begins) {
  std::vector<double> rates;
  for (const auto& rate : profile.local)
    if (rate.name.starts_with(begins)) rates.push_back(rate.value);
  return base::median(std::move(rates));
}

// Of the largest size that was measured, as a link's bandwidth: what a rank sends a second.
double link_rate(const Profile& profile) {
  double best = 0;
  for (const auto& s : profile.communication)
    if (!s.points.empty())
      best = std::max(best, static_cast<double>(s.points.back().bytes) * bus_factor(s.operation, s.ranks) /
                                s.points.back().seconds);
  return best;
}

}  // namespace

MeasuredMachine::MeasuredMachine(const Profile& profile)
    : blocks(profile), update_rate(local_rate(profile, "adamw")), communication_(profile.communication) {
  const auto folders = measured_folders(profile);
  if (folders.together) storage = *folders.together;
  else if (!folders.folders.empty()) storage = folders.folders.front().rates;
  const double ranks = std::ceil(profile.ranks / std::max<double>(1, static_cast<double>(profile.nodes.size())));
  if (profile.cores > 0 && profile.device == "cpu")
    ranks_of_core = std::max(1.0, ranks * profile.threads / profile.cores);
}

const CommSeries* MeasuredMachine::series_of(const std::string& operation, int ranks, base::DType type) const {
  const CommSeries* best = nullptr;
  const auto name = base::name_of(type);
  // Smaller is nearer: the number of ranks, then the dtype, then as many groups at the same time as there can be.
  const auto far = [&](const CommSeries& s) {
    return 100 * std::abs(std::log2(static_cast<double>(s.ranks) / ranks)) +
           (s.type == name || !adds(operation) ? 0 : 1) - 1e-3 * s.groups;
  };
  for (const auto& s : communication_)
    if (s.operation == operation && !s.fit.segments.empty() && (best == nullptr || far(s) < far(*best))) best = &s;
  return best;
}

std::optional<double> MeasuredMachine::seconds(const SizedCalls& c) const {
  const auto measured = measured_as(c.group, c.operation).operation;
  if (measured == exchange_of_stages) return message_seconds(static_cast<double>(c.bytes) / c.ranks);
  const auto* s = series_of(measured, c.ranks, c.type);
  if (s == nullptr) return {};
  return s->fit.seconds(c.bytes) * bus_factor(measured, c.ranks) / bus_factor(measured, s->ranks);
}

std::optional<double> MeasuredMachine::message_seconds(double bytes) const {
  const auto* s = series_of(exchange_of_stages, 2, base::DType::f32);
  return s == nullptr ? std::nullopt : std::optional(s->fit.seconds(static_cast<std::int64_t>(bytes)));
}

Machine measured_machine(const Profile& profile, const std::string& where) {
  const auto need = [&](double rate, const char* what) {
    if (rate <= 0)
      throw base::InputError(fmt::format("{} has no rates of {}, so a step has no time", where, what),
                             "profile-comm --local --blocks auto --model MODEL measures what a planner needs");
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
  const double products = need(std::max(m.flops_16bit, m.flops_32bit), "products");
  const double attention = median_rate(profile, "attention.");
  m.attention_share = attention > 0 ? std::min(1.0, attention / products) : 1;
  m.memory_bandwidth = need(local_rate(profile, "memory.copy"), "memory");
  m.product_share = m.memory_share = m.link_share = m.network_share = 1;
  (nodes == 1 ? m.link_bandwidth : m.network_bandwidth) = link_rate(profile);
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
  if (!name_or_file.ends_with(".json")) return load_machine(name_or_file);
  return measured_machine(profile_from_json(base::read_file(name_or_file, base::largest_description), name_or_file),
                          name_or_file);
}

}  // namespace trainyard::plan
