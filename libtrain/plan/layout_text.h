// Layouts as flags, and layouts that people write in one argument.
#pragma once

#include "libtrain/plan/search.h"

#include <string>

namespace trainyard::plan {

// What a search decides of a plan, as flags that give this layout again: "--tensor-parallel 8 --sequence-parallel".
// Settings with their defaults are left out; empty if all have them.
std::string layout_text(const Plan& plan);
// The same of settings that are not those of `from`.
std::string layout_text(const ParallelLayout& layout, const ParallelLayout& from);

// The plan with the settings of "tensor-parallel=2,zero=3", on the same ranks. Values with commas keep them:
// "recompute=full:0.5,selective,zero=3". UsageError, whose message begins with `spelled`.
Plan with_layout(Plan plan, const std::string& text, const std::string& spelled);
// The space in which such a text leaves open what it does not name.
SearchSpace space_beside(SearchSpace space, const std::string& text, const std::string& spelled);

}  // namespace trainyard::plan
