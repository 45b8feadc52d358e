// The categories of the memory ledger, once: what plans and reports call them.
#pragma once

#include <array>

namespace trainyard::base {

// In report order, which is that of tensor::Category. Plans write them so; tables for people show spaces.
inline constexpr std::array<const char*, 9> memory_categories = {
    "parameters",  "gathered_units",        "gradients", "unit_gradients", "optimizer",
    "activations", "communication_staging", "workspace", "save_snapshot"};

}  // namespace trainyard::base
