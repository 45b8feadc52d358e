// Flags of other trainers, and nearly right ones: what to use here instead.
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

// `flag` is what was typed, "--lr" or "--lr=1e-3"; `flags` the long names that the program has, without hyphens before them. Empty where nothing resembles it.
std::string flag_hint(const std::string& flag, const std::vector<std::string>& flags);

}  // namespace trainyard::tools
