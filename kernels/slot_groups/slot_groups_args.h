// Arguments of groups in slots, as plain data for the GPU module.
#pragma once

#include <cstdint>

namespace trainyard::kernels {

struct SlotGroupsArgs {
  std::int32_t* groups;
  std::int64_t n, slot_rows;
};

}  // namespace trainyard::kernels
