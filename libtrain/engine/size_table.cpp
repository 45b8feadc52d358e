// Prints a table of sizes.
#include "libtrain/engine/size_table.h"

#include <fmt/format.h>

namespace trainyard::engine {

std::string SizeTable::text(base::Sizes sizes) const {
  if (rows.empty()) return {};
  std::string out = fmt::format("{:<28}{:>16}{:>16}{:>12}\n", sizes == base::Sizes::exact ? title + " (bytes)" : title,
                                foretold, "measured", "difference");
  for (const auto& r : rows)
    out += fmt::format("{:<28}{:>16}{:>16}{:>12}\n", r.name, base::size_text(r.foretold, sizes),
                       base::size_text(r.measured, sizes),
                       r.verdict.empty() ? base::size_difference_text(r.measured - r.foretold, sizes) : r.verdict);
  return out;
}

}  // namespace trainyard::engine
