// The first rows of groups that several ranks sent into slots of equal size.
#pragma once

#include "kernels/slot_groups/slot_groups_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// groups is i32 [G, 2]: first row and number of rows. Group g gets the first row g * slot_rows; its number of rows
// stays.
void slot_groups(tensor::Exec& exec, base::View groups, std::int64_t slot_rows);

}  // namespace trainyard::kernels
