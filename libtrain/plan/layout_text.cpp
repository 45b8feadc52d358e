// Reads and writes settings of a layout by their fields.
#include "libtrain/plan/layout_text.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace trainyard::plan {

std::string layout_text(const Plan& plan) { return layout_text(plan, {}); }

std::string layout_text(const ParallelLayout& of, const ParallelLayout& from) {
  auto layout = of, usual = from;
  auto fields = fields_of(layout), defaults = fields_of(usual);
  std::vector<std::string> flags;
  for (const auto& setting : search_settings()) {
    auto& field = base::field_named(fields, setting.name, "a layout");
    const auto value = field.get();
    if (value == base::field_named(defaults, setting.name, "a layout").get()) continue;
    const auto name = base::setting_name(setting.name);
    flags.push_back(value == "on" ? name : fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

namespace {

// The kinds of $offload, whose value is a list of pairs itself.
bool is_offload_kind(const std::string& name) {
  return name == "optimizer" || name == "parameters" || name == "gradients" || name == "activations";
}

// "a=1,b=2,3" are a=1 and b=2,3: what has no equals sign belongs to the value before.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& text, const std::string& spelled) {
  std::vector<std::pair<std::string, std::string>> out;
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) {
    const auto equals = word.find('=');
    const bool goes_on = !out.empty() && (equals == std::string::npos ||
                                          (out.back().first == "offload" && is_offload_kind(word.substr(0, equals))));
    if (goes_on) out.back().second += "," + word;
    else if (equals == std::string::npos)
      throw base::UsageError(fmt::format("{}: {} is no setting with a value", spelled, base::one_line(word)),
                             "tensor-parallel=2,zero=3");
    else if (const auto name = word.substr(0, equals);
             std::any_of(out.begin(), out.end(), [&](const auto& pair) { return pair.first == name; }))
      throw base::UsageError(fmt::format("{}: {} comes twice", spelled, base::one_line(name)), "name it once");
    else out.emplace_back(name, word.substr(equals + 1));
  }
  return out;
}

const SearchSetting& setting_of(std::vector<base::Field>& fields, const std::string& name, const std::string& spelled) {
  const auto& field = base::field_named(fields, name, spelled);
  const auto& all = search_settings();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return field.name == s.name; });
  if (found == all.end())
    throw base::UsageError(fmt::format("{}: {} is no setting that a search decides", spelled, field.name),
                           base::text("$tensor-parallel, $zero and the like; others are flags"));
  return *found;
}

}  // namespace

Plan with_layout(Plan plan, const std::string& text, const std::string& spelled) {
  auto fields = fields_of(static_cast<ParallelLayout&>(plan));
  for (const auto& [name, value] : pairs_of(text, spelled)) {
    auto& field = base::field_named(fields, setting_of(fields, name, spelled).name, spelled);
    field.set(value, fmt::format("{} {}", spelled, field.name));
  }
  plan.topology = topology_of(plan, plan.topology.world());
  return plan;
}

SearchSpace space_beside(SearchSpace space, const std::string& text, const std::string& spelled) {
  ParallelLayout any;
  auto fields = fields_of(any);
  for (const auto& [name, value] : pairs_of(text, spelled)) space.*setting_of(fields, name, spelled).free = false;
  return space;
}

}  // namespace trainyard::plan
