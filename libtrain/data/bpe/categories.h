// Categories and scripts of Unicode in patterns, as the `tokenizers` package knows them. PCRE2 has those of its own
// version, which may be older.
#pragma once

#include "libtrain/data/bpe/unicode_classes.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

// Tables in category_table.cpp, which tests/golden/unicode_ranges.py writes. A run of one category ends where the next
// one begins. It is 256 times its first code point, and the place of its category in the list of categories.cpp; behind
// these, `alternating` is Lu and Ll in turn.
inline constexpr std::uint32_t alternating = 30;
struct ScriptRanges {
  std::string_view name;
  std::span<const CodePoints> ranges;
};
extern const std::span<const std::uint32_t> category_runs;
extern const std::span<const ScriptRanges> scripts;

// The code points of "L", "Lu", "Han", ..., ascending; empty for a name that the tables do not have. Surrogates are in
// none.
std::vector<CodePoints> code_points_of(std::string_view name);

// A property in a set of PCRE2, as those code points: its own property and what it lacks, else all of them.
// `item` is how PCRE2 writes it, such as "L" or "sc:Han".
struct SetItem {
  std::string inside, outside;  // for \p and for \P, without the brackets
  bool as_in_pcre2 = false;     // both have the same code points
};
SetItem set_item_of(std::string_view name, const std::string& item);

// The code points of a property of PCRE2, without surrogates.
std::vector<CodePoints> code_points_of_pcre2(const std::string& item);

}  // namespace trainyard::data::bpe
