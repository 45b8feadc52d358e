// The tokens that begin and end documents, as the weights of a checkpoint know them: provenance.document_tokens.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>

namespace trainyard::checkpoint {

struct DocumentIds {
  std::int32_t end = -1, begin = -1;  // -1: unknown, or none
};

nlohmann::json document_ids_to_json(DocumentIds ids);
// A value that is not a token id becomes -1. Only generate and export depend on these ids, and older checkpoints have
// none.
DocumentIds document_ids_of(const nlohmann::json& provenance);

// Keeps the three token ids of a Hugging Face config.json (bos, eos and pad), each an id or a list of ids. This is more
// than DocumentIds holds: a begin token that the model was not fed, several end tokens, padding. provenance.token_ids
// stores them unchanged, and an export writes them back.
void keep_token_ids(const nlohmann::json& config, nlohmann::json& provenance);
void give_token_ids(const nlohmann::json& provenance, nlohmann::ordered_json& config);

}  // namespace trainyard::checkpoint
