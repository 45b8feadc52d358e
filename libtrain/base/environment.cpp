// Which TRAINYARD_ variables are known.
#include "libtrain/base/environment.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/setting_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace trainyard::base {

namespace {

constexpr std::string_view prefix = "TRAINYARD_";

// Variables of a run that are no settings. The first three are read in kernels/isa.cpp, tensor/gpu.cpp and
// comm/nccl_library.cpp, the other two below. bench/limits.cpp reads the variable of measurements.
const std::vector<std::string> of_a_run = {"TRAINYARD_ISA", "TRAINYARD_GPU_MODULE", "TRAINYARD_NCCL_LIBRARY",
                                           "TRAINYARD_SHARED_MEMORY", "TRAINYARD_HOPPER"};
constexpr std::string_view of_measurements = "TRAINYARD_PROFILE";

std::vector<std::string> others() {
  auto all = of_a_run;
  all.emplace_back(of_measurements);
  return all;
}
// Prefixes of variables for tests: the emulated GPU, the stand-in for NCCL, folders of a bundle, and how many mutations
// and which ones.
constexpr std::string_view of_tests[] = {"TRAINYARD_TEST_", "TRAINYARD_EMULATED_", "TRAINYARD_STANDIN_",
                                         "TRAINYARD_GOLDEN_", "TRAINYARD_MUTATION"};

}  // namespace

std::string variable_of(const std::string& setting) {
  std::string out(prefix);
  for (char c : setting) out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

namespace {

bool wanted(const char* variable, bool otherwise) {
  const char* given = std::getenv(variable);
  if (given == nullptr || *given == 0) return otherwise;
  if (std::string_view(given) == "on") return true;
  if (std::string_view(given) == "off") return false;
  throw UsageError(fmt::format("{}={} is neither on nor off", variable, given), "use on or off");
}

}  // namespace

bool shared_memory_wanted() { return wanted("TRAINYARD_SHARED_MEMORY", true); }

bool hopper_wanted() { return wanted("TRAINYARD_HOPPER", false); }

std::vector<std::string> other_variables_of_a_run() {
  auto set = of_a_run;
  std::erase_if(set, [](const auto& name) { return std::getenv(name.c_str()) == nullptr; });
  return set;
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& settings) {
  const auto known = others();
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(prefix) || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (std::any_of(std::begin(of_tests), std::end(of_tests), [&](auto p) { return name.starts_with(p); })) continue;
    if (std::none_of(settings.begin(), settings.end(), [&](const auto& s) { return variable_of(s) == name; }))
      out.push_back(name);
  }
  return out;
}

std::string variable_hint(const std::string& variable, const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  for (const auto& s : settings) names.push_back(s);
  for (const auto& o : others()) {
    std::string lower;
    for (char c : o.substr(prefix.size()))
      lower += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    names.push_back(lower);
  }
  const auto close = resembling(variable.substr(prefix.size()), names);
  return close.empty()
             ? text("unset {}; every flag of train has a variable, $print-config shows which were used", variable)
             : fmt::format("did you mean {}? Or unset {}", variable_of(close), variable);
}

}  // namespace trainyard::base
