// What a registry refuses.
#include "libtrain/plan/blocks/named_kinds.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

namespace trainyard::plan {

namespace {

std::atomic<std::int64_t> registered_kinds{0};

}  // namespace

std::int64_t kind_registrations() { return registered_kinds; }
void count_kind_registration() { ++registered_kinds; }

void require_registrable(const char* what, const std::string& name, bool complete) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain))
    throw base::UsageError(fmt::format("'{}' cannot be the name of a {}", base::one_line(name), what),
                           "letters, digits, '_', '-' and '.': model files separate names by commas");
  if (!complete)
    throw base::UsageError(fmt::format("the {} '{}' is registered without a kind, or without a factory", what, name),
                           "give both: the kind describes it, and the factory makes it");
}

void refuse_unknown_kind(const char* what, const std::string& name, const std::vector<std::string>& known) {
  throw base::UsageError(fmt::format("no {} is called '{}'; there are {}", what, name, fmt::join(known, ", ")),
                         base::value_hint(name, known));
}

}  // namespace trainyard::plan
