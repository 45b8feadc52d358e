// Machine: what the devices, links and disks of a cluster can do, from published numbers.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/view.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {

struct MeasuredMachine;  // plan/measured_machine.h

// Bandwidths are bytes a second, each way. 0: not known. Files in plan/machine/machines have a source beside each
// number.
struct Machine {
  std::string name;
  int devices_per_node = 1;
  base::DeviceKind device = base::DeviceKind::cuda;
  std::string device_memory, host_memory;   // of a device, of a node: "80GB"
  double flops_16bit = 0, flops_32bit = 0;  // of dense products, of a device
  double memory_bandwidth = 0;              // of a device
  int multiprocessors = 1;                  // of a device: as many tiles of a product are computed at one time
  double link_bandwidth = 0;                // of a device to the other devices of its node
  double network_bandwidth = 0;             // of a node to the other nodes
  double host_link_bandwidth = 0;           // between a device and its host
  double host_bandwidth = 0;                // of a node's own memory
  int cores = 0;                            // of a node
  double disk_read = 0, disk_write = 0;     // of a node
  double device_power = 0;                  // W
  // The parts of these rates that programs reach for long. See the defaults in machine.cpp for their sources.
  double product_share = 0.8, attention_share = 0.55, memory_share = 0.85, link_share = 0.78, network_share = 0.9;
  double link_latency = 2.1e-6, network_latency = 10e-6;  // seconds of a message
  base::DType dtype = base::DType::bf16;                  // of 16 bits, that its products take
  // What profile-comm measured of this machine; null: its rates are published. `speed` multiplies all of it.
  std::shared_ptr<const MeasuredMachine> measured = {};
  double speed = 1;
};

std::vector<base::Field> fields_of(Machine& machine);

// The names of the machines whose files are part of the program.
std::vector<std::string> machine_names();
// The text of such a file. UsageError with the nearest name.
const std::string& machine_text(const std::string& name);
bool is_machine_name(const std::string& name);
// Reads a machine by its name or from its TOML file. UsageError, InputError.
Machine load_machine(const std::string& name_or_toml);
// The same from the text of a file, which messages call `path`.
Machine machine_of_toml(const std::string& text, const std::string& path);

// Refuses a machine that lacks a rate without which so many ranks have no step time. InputError.
void require_links(const Machine& machine, int ranks);

// The machine with all rates multiplied by `factor`, and latencies divided by it.
Machine with_rates(Machine machine, double factor);

std::int64_t device_memory_of(const Machine& machine);  // bytes; 0: not known
// A device's share of its node's, in bytes, where so many ranks compute; 0: not known.
std::int64_t host_memory_of_device(const Machine& machine, int ranks);
// The devices of a node that so many ranks use, and which share its memory and disks.
int devices_used(const Machine& machine, int ranks);

}  // namespace trainyard::plan
