// Writes and reads two ids.
#include "libtrain/checkpoint/document_tokens.h"

#include <limits>

namespace trainyard::checkpoint {

nlohmann::json document_ids_to_json(DocumentIds ids) {
  auto out = nlohmann::json::object();
  if (ids.end >= 0) out["end"] = ids.end;
  if (ids.begin >= 0) out["begin"] = ids.begin;
  return out;
}

DocumentIds document_ids_of(const nlohmann::json& provenance) {
  const auto found = provenance.is_object() ? provenance.find("document_tokens") : provenance.end();
  if (!provenance.is_object() || found == provenance.end() || !found->is_object()) return {};
  const auto id = [&](const char* key) -> std::int32_t {
    const auto at = found->find(key);
    if (at == found->end() || !at->is_number_unsigned()) return -1;
    const auto n = at->get<std::uint64_t>();
    return n <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(n) : -1;
  };
  return {id("end"), id("begin")};
}

}  // namespace trainyard::checkpoint
