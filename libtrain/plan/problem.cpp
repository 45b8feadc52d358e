// Problems of a plan as one text.
#include "libtrain/plan/problem.h"

#include <fmt/format.h>

namespace trainyard::plan {

std::string text_of(const std::vector<Problem>& list) {
  if (list.empty()) return {};
  std::string out = list.size() == 1 ? "" : fmt::format("{} things are wrong:", list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    out += fmt::format("{}{}{}", list.size() == 1 ? "" : fmt::format("\n  {}. ", i + 1), list[i].message,
                       list[i].hint.empty() ? "" : fmt::format(" (try: {})", list[i].hint));
  return out;
}

}  // namespace trainyard::plan
