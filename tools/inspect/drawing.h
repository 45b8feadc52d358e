// Drawings of runs as SVG.
#pragma once

#include "tools/inspect/compare.h"
#include "tools/inspect/history.h"

#include <string>
#include <vector>

namespace trainyard::inspect {

// Up to four panels: loss, gradient norm, learning rate, throughput. Panels without data are left out.
std::string run_drawing(const std::string& name, const History& history, Across across);

// The losses of all runs in one panel, with validations dashed. If any run differs, a panel below shows the difference
// of each from the first.
std::string comparison_drawing(const std::vector<NamedHistory>& runs, Across across);

}  // namespace trainyard::inspect
