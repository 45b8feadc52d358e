// Names of the memory categories in plans and reports.
#pragma once

#include <array>

namespace trainyard::base {

// In the order of reports and of tensor::Category. Plans use these names; tables for people show spaces for
// underscores.
inline constexpr std::array<const char*, 9> memory_categories = {
    "parameters",  "gathered_units",        "gradients", "unit_gradients", "optimizer",
    "activations", "communication_staging", "workspace", "save_snapshot"};

}  // namespace trainyard::base
