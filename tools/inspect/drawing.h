// Runs as drawings.
#pragma once

#include "tools/inspect/compare.h"
#include "tools/inspect/history.h"

#include <string>
#include <vector>

namespace trainyard::inspect {

// Four panels: loss, gradient norm, learning rate, throughput; those that the lines say nothing about are left out.
std::string run_drawing(const std::string& name, const History& history, Across across);

// The losses of all in one panel, validations dashed; below, where any differs, how far each lies from the first.
std::string comparison_drawing(const std::vector<NamedHistory>& runs, Across across);

}  // namespace trainyard::inspect
