// The tokens around documents that the weights of a checkpoint know: provenance.document_tokens.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>

namespace trainyard::checkpoint {

struct DocumentIds {
  std::int32_t end = -1, begin = -1;  // -1: not known, or none
};

nlohmann::json document_ids_to_json(DocumentIds ids);
// -1 for what is no id: nothing but generate and export depends on it, and older checkpoints say nothing.
DocumentIds document_ids_of(const nlohmann::json& provenance);

// Of a model of Hugging Face: what its config.json says of the three, ids or lists of them, which is more than the ids
// above: a beginning that texts were not fed, several ends, padding. It goes out again as it came in
// (provenance.token_ids).
void keep_token_ids(const nlohmann::json& config, nlohmann::json& provenance);
void give_token_ids(const nlohmann::json& provenance, nlohmann::ordered_json& config);

}  // namespace trainyard::checkpoint
