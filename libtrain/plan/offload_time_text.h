// What an offload's bytes cost, as text for people and as JSON.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/offload_time.h"

#include <string>

namespace trainyard::plan {

// Rows about folders, seconds, the tokens a step from which it hides, and what is written to each folder. What is not
// known has no row.
std::string offload_time_text(const Plan& plan, const OffloadTime& time, base::Sizes sizes);

// The same facts: "stage", "space", "step_read", "step_written", "folders", "disk_seconds", "flops_per_second",
// "compute_seconds", "hides_from_tokens" (null: from no number) and "ranks_on_node". A folder has what all ranks of a
// node write to it: "written_in_1000_steps", and "written_a_day" where the seconds of a step are known. Where folders
// are not known, "written_in_1000_steps" is of the rank. What is not known has no key.
nlohmann::ordered_json offload_time_json(const Plan& plan, const OffloadTime& time);

}  // namespace trainyard::plan
