// Writes and reads the ids of document tokens.
#include "libtrain/checkpoint/document_tokens.h"

#include <algorithm>
#include <limits>

namespace trainyard::checkpoint {

namespace {

constexpr std::size_t most_ids = 64;

bool is_id(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
}

// Copies values that are an id or a list of ids.
template <class To> void copy_ids(const nlohmann::json& from, To& to) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto at = from.find(key);
    if (at == from.end()) continue;
    const bool list = at->is_array() && !at->empty() && at->size() <= most_ids;
    if (is_id(*at) || (list && std::all_of(at->begin(), at->end(), is_id))) to[key] = *at;
  }
}

}  // namespace

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

void keep_token_ids(const nlohmann::json& config, nlohmann::json& provenance) {
  auto ids = nlohmann::json::object();
  if (config.is_object()) copy_ids(config, ids);
  if (!ids.empty()) provenance["token_ids"] = ids;
}

void give_token_ids(const nlohmann::json& provenance, nlohmann::ordered_json& config) {
  const auto found = provenance.is_object() ? provenance.find("token_ids") : provenance.end();
  if (provenance.is_object() && found != provenance.end() && found->is_object()) copy_ids(*found, config);
}

}  // namespace trainyard::checkpoint
