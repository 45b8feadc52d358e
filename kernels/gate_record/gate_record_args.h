// Arguments of a gate's record, as plain data for the GPU module.
#pragma once

#include "kernels/mat.h"

#include <cstdint>

namespace trainyard::kernels {

enum GateRecordSum : int { kept_places, balance_sum, z_sum, entropy_sum, target_sum, gate_record_sums };
inline constexpr double gate_record_unit = 1.0 / (1 << 20);

struct GateRecordArgs {
  const std::int32_t *groups = nullptr, *loads = nullptr;
  const double *losses = nullptr, *targets = nullptr;
  std::int64_t experts = 0;
  std::int64_t* record = nullptr;
  Mat as_numbers = {};  // for gate_loads: [E], f32 or f64, gets the loads; the other outputs are then unused
};

}  // namespace trainyard::kernels
