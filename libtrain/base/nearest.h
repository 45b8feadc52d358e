// The nearest legal name to one that is not, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

// By edit distance (Levenshtein 1966); empty when there are no names.
std::string nearest(std::string_view name, const std::vector<std::string>& legal);

// The same, but empty when even the nearest is another word: more than a third of it, or two letters of a short one,
// would have to change. Underscores count as hyphens.
std::string resembling(std::string_view name, const std::vector<std::string>& legal);

// What to try for a value that is not legal: what other programs call it ("bfloat16", "gpu", "true"), else the nearest;
// empty where none resembles it.
std::string value_hint(std::string_view value, const std::vector<std::string>& legal);

}  // namespace trainyard::base
