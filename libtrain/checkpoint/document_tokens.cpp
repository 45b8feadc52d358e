// Writes and reads the ids of document tokens.
#include "libtrain/checkpoint/document_tokens.h"

#include "libtrain/checkpoint/companions.h"

#include <algorithm>
#include <limits>
#include <set>

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

// The ids of a value that is an id or a list of ids.
std::vector<std::int32_t> ids_of_value(const nlohmann::json& object, const char* key) {
  auto only = nlohmann::json::object();
  if (object.is_object()) copy_ids(object, only);
  const auto at = only.find(key);
  if (at == only.end()) return {};
  return at->is_array() ? at->get<std::vector<std::int32_t>>() : std::vector{at->get<std::int32_t>()};
}

const nlohmann::json* member_in(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto at = json.find(key);
  return at == json.end() ? nullptr : &*at;
}

// The end tokens that the imported config.json and generation_config.json name.
std::set<std::int32_t> imported_end_ids(const nlohmann::json& provenance) {
  std::set<std::int32_t> ids;
  const auto add = [&](const nlohmann::json& from) {
    for (const auto id : ids_of_value(from, "eos_token_id")) ids.insert(id);
  };
  add(nlohmann::json::parse(recorded_config(provenance), nullptr, false));
  const auto* record = member_in(provenance, "hugging_face");
  if (const auto* generation = record == nullptr ? nullptr : member_in(*record, "generation")) add(*generation);
  return ids;
}

// Whether the import found a tokenizer of a kind that a run can have.
bool records_tokenizer(const nlohmann::json& record) {
  const auto* files = member_in(record, "files");
  return files != nullptr && files->is_array() && std::any_of(files->begin(), files->end(), [](const auto& file) {
           const auto* name = member_in(file, "name");
           return name != nullptr && name->is_string() && is_whole_tokenizer(name->template get<std::string>());
         });
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

bool has_imported_tokenizer(const nlohmann::json& provenance) {
  const auto* record = member_in(provenance, "hugging_face");
  if (record == nullptr) return false;
  if (provenance.contains("imported_from")) return true;
  const auto *tokenizer = member_in(provenance, "tokenizer"), *files = member_in(*record, "files");
  const auto* crc = tokenizer == nullptr ? nullptr : member_in(*tokenizer, "crc32c");
  if (crc == nullptr || files == nullptr || !files->is_array()) return false;
  return std::any_of(files->begin(), files->end(), [&](const auto& file) {
    const auto* of_file = member_in(file, "crc32c");
    return of_file != nullptr && *of_file == *crc;
  });
}

bool has_other_tokenizer(const nlohmann::json& provenance) {
  const auto *record = member_in(provenance, "hugging_face"), *tokenizer = member_in(provenance, "tokenizer");
  if (record == nullptr || tokenizer == nullptr || !tokenizer->is_object() || has_imported_tokenizer(provenance))
    return false;
  if (records_tokenizer(*record)) return true;
  // Models of other programs have no bytes for tokens, and one of ours ends where its data did.
  const auto ends = imported_end_ids(provenance);
  return tokenizer->value("source", nlohmann::json()) == "bytes" && !ends.empty() &&
         !ends.contains(document_ids_of(provenance).end);
}

bool may_have_other_tokenizer(const nlohmann::json& provenance) {
  const auto *record = member_in(provenance, "hugging_face"), *tokenizer = member_in(provenance, "tokenizer");
  if (record == nullptr || tokenizer == nullptr || !tokenizer->is_object() || provenance.contains("imported_from") ||
      has_other_tokenizer(provenance) || records_tokenizer(*record))
    return false;
  const auto ends = imported_end_ids(provenance);
  return !ends.empty() && !ends.contains(document_ids_of(provenance).end);
}

void use_ids_of_run(const nlohmann::json& provenance, nlohmann::ordered_json& config) {
  const auto ids = document_ids_of(provenance);
  if (has_other_tokenizer(provenance)) {
    const auto set = [&](const char* key, std::int32_t id) {
      if (id >= 0) config[key] = id;
      else if (config.contains(key)) config[key] = nullptr;
    };
    set("bos_token_id", ids.begin);
    set("eos_token_id", ids.end);
    set("pad_token_id", -1);
    return;
  }
  if (ids.begin >= 0 && (config.contains("bos_token_id") || config.contains("model_type"))) {
    const auto begins = ids_of_value(nlohmann::json(config), "bos_token_id");
    if (begins.empty() || begins.front() != ids.begin) config["bos_token_id"] = ids.begin;
  }
  if (ids.end >= 0 && !imported_end_ids(provenance).contains(ids.end)) {
    auto ends = ids_of_value(nlohmann::json(config), "eos_token_id");
    ends.push_back(ids.end);
    if (ends.size() == 1) config["eos_token_id"] = ids.end;
    else config["eos_token_id"] = ends;
  }
}

void keep_end_ids(const nlohmann::json& generation, nlohmann::json& record) {
  if (const auto ids = ids_of_value(generation, "eos_token_id"); !ids.empty())
    record["generation"] = {{"eos_token_id", ids}};
}

std::vector<std::int32_t> end_ids_of(const nlohmann::json& provenance) {
  std::set<std::int32_t> ids;
  if (has_imported_tokenizer(provenance)) ids = imported_end_ids(provenance);
  if (const auto end = document_ids_of(provenance).end; end >= 0) ids.insert(end);
  if (const auto* kept = member_in(provenance, "token_ids"))
    for (const auto id : ids_of_value(*kept, "eos_token_id")) ids.insert(id);
  return {ids.begin(), ids.end()};
}

std::optional<bool> imported_begins_texts(const nlohmann::json& provenance) {
  const auto* record = member_in(provenance, "hugging_face");
  const auto* begins = record == nullptr ? nullptr : member_in(*record, "texts_begin_with_a_token");
  return begins != nullptr && begins->is_boolean() ? std::optional(begins->get<bool>()) : std::nullopt;
}

std::int32_t imported_begin_id(const nlohmann::json& provenance) {
  const auto* kept = member_in(provenance, "token_ids");
  auto ids = kept == nullptr ? std::vector<std::int32_t>() : ids_of_value(*kept, "bos_token_id");
  if (ids.empty() && has_imported_tokenizer(provenance))
    ids = ids_of_value(nlohmann::json::parse(recorded_config(provenance), nullptr, false), "bos_token_id");
  return ids.empty() ? -1 : ids.front();
}

}  // namespace trainyard::checkpoint
