// What folders can do that hold what a rank's memory does not: the ceilings of a base::Storage in them.
#pragma once

#include "libtrain/profile/ceilings.h"

#include <memory>
#include <vector>

namespace trainyard::profile {

// storage.write, storage.read and storage.update of each folder, and, where there are several, of all together.
std::vector<Ceiling> storage_ceilings(const CeilingOptions& options);

// Takes the space in each folder that the measurement needs, until the result is destroyed. EnvironmentError where the
// space is not there.
std::shared_ptr<void> reserved_storage(const CeilingOptions& options);

}  // namespace trainyard::profile
