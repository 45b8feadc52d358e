// The flags of partition-model that are no settings of a plan.
#pragma once

#include "libtrain/plan/model_file/adapter_setting.h"

#include <cstdint>
#include <string>

namespace trainyard::tools {

struct Options {
  std::string model = "gpt2-micro", data, device_memory, host_memory, profile, output, offload_dir;
  std::int64_t vocabulary = 0, lanes = 0;
  plan::AdapterSettings adapter;
  int ranks = 1;
  bool json = false, force = false, bytes = false, offload_auto = false, recompute_auto = false;
  // of machines and times
  std::string machine, assume, until, why_not;
  int nodes = 0, top = 10;
  bool search = false, fewest_nodes = false, largest_model = false, shadow_prices = false, show_machine = false;
  std::string scale, svg, frontier, draw;
};

}  // namespace trainyard::tools
