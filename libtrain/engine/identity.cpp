// Compares identities field by field.
#include "libtrain/engine/identity.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/model_json.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::engine {

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> out;
  std::string name;
  for (char c : text + ",") {
    if (c != ',') name += c == '-' ? '_' : c;
    else if (!name.empty()) out.push_back(std::exchange(name, {}));
  }
  return out;
}

void require_known_fields(const nlohmann::json& identity, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const auto& item : identity.items()) names.push_back(item.key());
  for (const auto& name : wanted)
    if (!identity.contains(name)) {
      const auto close = base::resembling(name, names);
      throw base::UsageError(fmt::format("--change {}: there is no such field; those of a run's identity are {}", name, fmt::join(names, ", ")), close.empty() ? "" : fmt::format("did you mean '{}'?", close));
    }
}

void require_same_run(const nlohmann::json& checkpoint, const nlohmann::json& now, const std::vector<std::string>& allowed, const std::string& where) {
  require_known_fields(now, allowed);
  std::string differences, names;
  for (const auto& item : now.items()) {
    auto was = checkpoint.contains(item.key()) ? checkpoint[item.key()] : nlohmann::json();
    if (item.key() == "model") was = plan::current_form(was);
    if (was == item.value() || std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    differences += fmt::format("\n  {}: the checkpoint has {}, this run {}", item.key(), was.dump(), item.value().dump());
    names += (names.empty() ? "" : ",") + item.key();
  }
  if (!differences.empty())
    throw base::InputError(fmt::format("{} belongs to another run:{}", where, differences),
                           fmt::format("give the old values, or say --change {} to go on with the new ones, or --resume never with another --output", names));
}

std::string hash_of(const nlohmann::json& identity) { return fmt::format("{:016x}", base::site_hash("identity", identity.dump())); }

}  // namespace trainyard::engine
