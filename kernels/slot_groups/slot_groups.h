// Groups of rows as they lie where several ranks sent them.
#pragma once

#include "kernels/slot_groups/slot_groups_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// groups i32 [G, 2], the first row and how many: group g now begins at row g * slot_rows; how many it has stays.
void slot_groups(tensor::Exec& exec, base::View groups, std::int64_t slot_rows);

}  // namespace trainyard::kernels
