// Prints a table of sizes.
#include "libtrain/engine/size_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

std::string SizeTable::text(base::Sizes sizes) const {
  if (rows.empty()) return {};
  const auto heading = sizes == base::Sizes::exact ? title + " (bytes)" : title;
  auto wide = std::max<std::size_t>(28, heading.size());
  for (const auto& r : rows) wide = std::max(wide, r.name.size() + 1);
  auto out = fmt::format("{:<{}}{:>16}{:>16}{:>12}\n", heading, wide, predicted, "measured", "difference");
  for (const auto& r : rows)
    out += fmt::format("{:<{}}{:>16}{:>16}{:>12}\n", r.name, wide, base::size_text(r.predicted, sizes),
                       base::size_text(r.measured, sizes),
                       r.verdict.empty() ? base::size_difference_text(r.measured - r.predicted, sizes) : r.verdict);
  return out;
}

}  // namespace trainyard::engine
