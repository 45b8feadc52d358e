// The legal name that is nearest to an unknown one, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

// The nearest name by edit distance (Levenshtein 1966); empty when `legal` is empty.
std::string nearest(std::string_view name, const std::vector<std::string>& legal);

// The same, but empty when even the nearest name is a different word. It is different if more than a third of its
// letters, and more than two, would have to change. Upper case counts as lower case, and underscores as hyphens.
std::string resembling(std::string_view name, const std::vector<std::string>& legal);

// A hint for an illegal value. It names the value for what other programs write ("bfloat16", "gpu", "true"), else the
// nearest one. Empty where no legal value resembles it.
std::string value_hint(std::string_view value, const std::vector<std::string>& legal);

}  // namespace trainyard::base
