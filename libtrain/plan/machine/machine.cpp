// Fields of a machine, and machines by name.
#include "libtrain/plan/machine/machine.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/machine/machine_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr const char* ending_of_files = ".toml";

void require_rates(const Machine& m, const std::string& where) {
  const auto need = [&](bool there, const char* what) {
    if (!there) throw base::InputError(fmt::format("{}: {} is missing", where, what), "a time needs it");
  };
  need(m.flops_16bit > 0 || m.flops_32bit > 0, "flops-16bit or flops-32bit");
  need(m.memory_bandwidth > 0, "memory-bandwidth");
  // Less than that is another unit, such as GB/s.
  constexpr double least_flops = 1e6, least_bandwidth = 1e4;
  const auto in_units = [&](const char* what, double rate, double least, const char* unit) {
    if (rate > 0 && rate < least)
      throw base::InputError(
          fmt::format("{}: {} is {:g} {}, and no machine is that slow", where, what, rate, unit),
          fmt::format("it is a number of {0}, not of {1}{0}", unit, least == least_flops ? "T" : "G"));
  };
  in_units("flops-16bit", m.flops_16bit, least_flops, "FLOP/s");
  in_units("flops-32bit", m.flops_32bit, least_flops, "FLOP/s");
  for (const auto& [what, rate] :
       {std::pair("memory-bandwidth", m.memory_bandwidth), std::pair("link-bandwidth", m.link_bandwidth),
        std::pair("network-bandwidth", m.network_bandwidth), std::pair("host-link-bandwidth", m.host_link_bandwidth),
        std::pair("host-bandwidth", m.host_bandwidth), std::pair("disk-read", m.disk_read),
        std::pair("disk-write", m.disk_write)})
    in_units(what, rate, least_bandwidth, "B/s");
}

}  // namespace

// Shares: products of large matrices on an A100 reach about 250 of 312 TFLOP/s, because the clock falls under that
// load. Fused attention reaches 50 to 73 % of its peak (Dao 2023, "FlashAttention-2", section 4). BabelStream reports
// 1.7 to 1.8 of 2.04 TB/s there. nccl-tests reports 235 of 300 GB/s on NVLink of a DGX A100, and some 30 us for an
// all-reduce of few bytes among its eight devices: 14 hops of a ring, 2.1 us each. InfiniBand HDR reports 24.5 of 25
// GB/s for large messages, and rings of several nodes nine tenths.
std::vector<base::Field> fields_of(Machine& m) {
  constexpr const char *of_device = "Device", *of_node = "Node", *of_all = "Sustained";
  constexpr base::Range<double> rate{0, 1e18}, share{0.01, 1}, latency{0, 1}, watts{0, 1e6};
  base::FieldVisitor v;
  v("devices-per-node", m.devices_per_node, of_node, "devices of a node; of a CPU its ranks",
    base::Range<int>{1, 1024});
  v("device", m.device, of_device, "where ranks compute: cpu or cuda",
    base::Choices<base::DeviceKind>{{"cpu", base::DeviceKind::cpu}, {"cuda", base::DeviceKind::cuda}});
  v("device-memory", m.device_memory, of_device, "memory of a device", base::Bytes{});
  v("host-memory", m.host_memory, of_node, "memory of a node", base::Bytes{});
  v("flops-16bit", m.flops_16bit, of_device, "FLOP/s of dense products in bf16", rate);
  v("flops-32bit", m.flops_32bit, of_device, "FLOP/s of dense products in f32", rate);
  v("dtype", m.dtype, of_device, "dtype of 16 bits that its products take: bf16 or f16",
    base::Choices<base::DType>{{"bf16", base::DType::bf16}, {"f16", base::DType::f16}});
  v("memory-bandwidth", m.memory_bandwidth, of_device, "B/s of a device's memory", rate);
  v("multiprocessors", m.multiprocessors, of_device, "tiles of a product that are computed at one time",
    base::Range<int>{1, 1 << 16});
  v("link-bandwidth", m.link_bandwidth, of_device, "B/s each way to the devices of its node", rate);
  v("network-bandwidth", m.network_bandwidth, of_node, "B/s each way to other nodes", rate);
  v("host-link-bandwidth", m.host_link_bandwidth, of_device, "B/s each way between a device and its host", rate);
  v("host-bandwidth", m.host_bandwidth, of_node, "B/s of a node's memory", rate);
  v("cores", m.cores, of_node, "cores of a node", base::Range<int>{0, 1 << 16});
  v("disk-read", m.disk_read, of_node, "B/s read from a node's disks", rate);
  v("disk-write", m.disk_write, of_node, "B/s written to a node's disks", rate);
  v("device-power", m.device_power, of_device, "W of a device", watts);
  v("product-share", m.product_share, of_all, "of the FLOP/s of products", share);
  v("attention-share", m.attention_share, of_all, "of the FLOP/s inside of fused attention", share);
  v("memory-share", m.memory_share, of_all, "of the memory's B/s", share);
  v("link-share", m.link_share, of_all, "of the links' B/s", share);
  v("network-share", m.network_share, of_all, "of the network's B/s", share);
  v("link-latency", m.link_latency, of_all, "seconds of a message in a node", latency);
  v("network-latency", m.network_latency, of_all, "the same between nodes", latency);
  return v.take();
}

std::vector<std::string> machine_names() {
  std::vector<std::string> out;
  for (const auto& [name, text] : machine_texts()) out.push_back(name);
  return out;
}

const std::string& machine_text(const std::string& name) {
  const auto found = machine_texts().find(name);
  if (found != machine_texts().end()) return found->second;
  const auto names = machine_names();
  auto hint = base::value_hint(name, names);
  throw base::UsageError(
      fmt::format("there is no machine '{}'; there are {}", base::one_line(name), base::listed(names, "and")),
      hint.empty() ? "or the path of a TOML file" : hint);
}

bool is_machine_name(const std::string& name) { return machine_texts().contains(name); }

Machine machine_of_toml(const std::string& text, const std::string& path) {
  Machine m;
  auto fields = fields_of(m);
  base::read_toml_text(fields, text, path);
  m.name = std::filesystem::path(path).stem().string();
  require_rates(m, path);
  return m;
}

Machine load_machine(const std::string& name_or_toml) {
  std::error_code error;
  if (!is_machine_name(name_or_toml) &&
      (name_or_toml.ends_with(ending_of_files) || std::filesystem::exists(name_or_toml, error)))
    return machine_of_toml(base::read_file(name_or_toml, base::largest_description), name_or_toml);
  return machine_of_toml(machine_text(name_or_toml), name_or_toml + ending_of_files);
}

void require_links(const Machine& m, int ranks) {
  const auto need = [&](double rate, const char* what) {
    if (rate <= 0)
      throw base::InputError(
          fmt::format("the machine {} has no {}, which {} need", m.name, what, base::counted(ranks, "rank")),
          m.measured ? fmt::format("measure on as many: mpirun -n {} profile-comm --blocks auto", ranks)
                     : base::text("add it to a file of your own: $machine FILE.toml"));
  };
  if (ranks > 1 && m.devices_per_node > 1) need(m.link_bandwidth, "link-bandwidth");
  if (ranks > m.devices_per_node) need(m.network_bandwidth, "network-bandwidth");
}

Machine with_rates(Machine m, double factor) {
  for (auto* rate : {&m.flops_16bit, &m.flops_32bit, &m.memory_bandwidth, &m.link_bandwidth, &m.network_bandwidth,
                     &m.host_link_bandwidth, &m.host_bandwidth, &m.disk_read, &m.disk_write})
    *rate *= factor;
  m.link_latency /= factor, m.network_latency /= factor, m.speed *= factor;
  return m;
}

std::int64_t device_memory_of(const Machine& m) {
  return m.device_memory.empty() ? 0 : base::parse_bytes(m.device_memory, "device-memory");
}

int devices_used(const Machine& m, int ranks) { return std::max(1, std::min(m.devices_per_node, ranks)); }

std::int64_t host_memory_of_device(const Machine& m, int ranks) {
  return m.host_memory.empty() ? 0 : base::parse_bytes(m.host_memory, "host-memory") / devices_used(m, ranks);
}

}  // namespace trainyard::plan
