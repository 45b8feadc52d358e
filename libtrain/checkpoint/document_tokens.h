// The tokens that begin and end documents, as the weights of a checkpoint know them: provenance.document_tokens.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <vector>

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

// Keeps the end tokens of a generation_config.json in provenance.hugging_face, `record`. They may be more than those of
// config.json.
void keep_end_ids(const nlohmann::json& generation, nlohmann::json& record);
// Whether ids of the imported model mean the same tokens in the run that has this provenance: its tokenizer is a file
// of the import, or no run began with the import yet.
bool has_imported_tokenizer(const nlohmann::json& provenance);
// Whether a run that began with an imported model has another tokenizer: it is no file of the import, which had one. If
// the import had none, only the tokenizer "bytes" is known to be another.
bool has_other_tokenizer(const nlohmann::json& provenance);
// Whether nothing says that: the import had no tokenizer, and its files know no end of documents as the run's.
bool may_have_other_tokenizer(const nlohmann::json& provenance);
// Changes the ids of an imported config.json or generation_config.json where the run knows better. Another tokenizer's
// ids replace all of them; ids that it lacks become null. With the imported tokenizer, the token that begins the run's
// documents replaces the one in the file, if it is a config.json or has one. The token that ends them is added to the
// end tokens, unless one of the two files had it.
void use_ids_of_run(const nlohmann::json& provenance, nlohmann::ordered_json& config);

// All ids that are known to end texts, each once: those of DocumentIds and of the imported config.json and
// generation_config.json. A run that began with imported weights keeps them if it has the tokenizer file of the import.
std::vector<std::int32_t> end_ids_of(const nlohmann::json& provenance);
// Whether texts of the imported weights begin with a token. Nothing: the weights were not imported, or an older import
// did not record it. The record stays when a run begins with the weights.
std::optional<bool> imported_begins_texts(const nlohmann::json& provenance);
// The first bos_token_id of the imported config.json; -1: none.
std::int32_t imported_begin_id(const nlohmann::json& provenance);

}  // namespace trainyard::checkpoint
