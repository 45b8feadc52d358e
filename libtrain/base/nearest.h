// The nearest legal name to one that is not, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

// By edit distance (Levenshtein 1966); empty when there are no names.
std::string nearest(std::string_view name, const std::vector<std::string>& legal);

}  // namespace trainyard::base
