// What searches found, as rows, JSON and drawings: layouts, scaling, and time over memory.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/plan/scale.h"

#include <string>
#include <vector>

namespace trainyard::tools {

// FLOP/s of a device, of the model's FLOPs without what is recomputed.
double model_flops_of(const plan::FoundPlan& found);
std::string layout_name(const plan::FoundPlan& found);  // its flags
nlohmann::ordered_json json_of(const plan::FoundPlan& found);

// A line for each point. Efficiency is against the first point at which something fits. Points at which nothing fits
// say why, in JSON as "why_none".
std::string scale_table(plan::Scaled what, const std::vector<plan::ScalePoint>& points);
std::string scale_json(plan::Scaled what, const std::vector<plan::ScalePoint>& points);
// Tokens a second beside the ideal, and FLOP/s of a device.
std::string scale_drawing(plan::Scaled what, const std::vector<plan::ScalePoint>& points, const std::string& machine);

// Of plan::frontier().
std::string frontier_table(const std::vector<plan::FoundPlan>& found);
std::string frontier_json(const std::vector<plan::FoundPlan>& found);
std::string frontier_drawing(const std::vector<plan::FoundPlan>& found, std::int64_t device_bytes,
                             const std::string& machine);

}  // namespace trainyard::tools
