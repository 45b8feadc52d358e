// Files of a plan: read whole, written whole or not at all.
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

enum class Existing { keep, replace };   // replace: a plan, and nothing else
// The whole file; InputError.
std::string read_plan_file(const std::string& path);
// Writes text under a temporary name beside `path`, syncs, renames. UsageError when the file exists and is to be kept, or is no plan, or is one of the inputs (base::require_own);
// EnvironmentError when it cannot be written. partition-model links no room above plan, so it has these of its own.
void write_plan_file(const std::string& path, const std::string& text, Existing existing, std::vector<std::string> inputs);

}  // namespace trainyard::tools
