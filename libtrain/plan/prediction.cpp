// Predicts again and compares.
#include "libtrain/plan/prediction.h"

#include "libtrain/base/text.h"
#include "libtrain/plan/plan_json.h"

#include <fmt/format.h>

namespace trainyard::plan {

namespace {

void differ(std::string& out, const std::string& what, double given, double found) {
  if (given != found)
    out += fmt::format("{}{} is {:.0f}, this build computes {:.0f}", out.empty() ? "" : "; ", what, given, found);
}

}  // namespace

std::string other_prediction(const Plan& p) {
  auto again = p;
  predict(again);
  std::string wrong;
  differ(wrong, "parameters", static_cast<double>(p.parameters), static_cast<double>(again.parameters));
  differ(wrong, "active parameters", static_cast<double>(p.active_parameters),
         static_cast<double>(again.active_parameters));
  for (const auto& entry : base::memory_categories)
    differ(wrong, fmt::format("memory of {}", entry.key), static_cast<double>(p.memory.categories[entry.category]),
           static_cast<double>(again.memory.categories[entry.category]));
  differ(wrong, "the reserve", static_cast<double>(p.memory.reserve), static_cast<double>(again.memory.reserve));
  differ(wrong, "FLOPs of a step", p.flops, again.flops);
  if (p.traffic != again.traffic) wrong += fmt::format("{}the traffic of a step differs", wrong.empty() ? "" : "; ");
  if (wrong.empty() && to_json(p) != to_json(again)) wrong = "this build would write other values";
  return wrong;
}

std::string edited_text(const Plan& plan, const std::string& path) {
  const auto other = other_prediction(plan);
  if (other.empty()) return {};
  return fmt::format("{} was edited, or made by another version: {}; this program uses what it computes itself",
                     base::one_line(path), base::shortened(other));
}

}  // namespace trainyard::plan
