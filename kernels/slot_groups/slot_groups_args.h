// Groups in slots as a GPU sees them.
#pragma once

#include <cstdint>

namespace trainyard::kernels {

struct SlotGroupsArgs {
  std::int32_t* groups;
  std::int64_t n, slot_rows;
};

}  // namespace trainyard::kernels
