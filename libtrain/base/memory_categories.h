// Names of the memory categories in plans and reports.
#pragma once

#include <array>

namespace trainyard::base {

// In the order of reports and of tensor::Category. Plans use these names as keys, and keep them for ever.
inline constexpr std::array<const char*, 9> memory_categories = {
    "parameters",  "gathered_units",        "gradients", "unit_gradients", "optimizer",
    "activations", "communication_staging", "workspace", "save_snapshot"};

// The same for people: in tables and messages.
inline constexpr std::array<const char*, memory_categories.size()> memory_category_labels = {
    "parameters",  "gathered weights",      "gradients", "micro-batch gradients", "optimizer",
    "activations", "communication staging", "workspace", "save snapshot"};

}  // namespace trainyard::base
