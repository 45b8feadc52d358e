// Files that stand beside the weights of a Hugging Face model: its tokenizer, generation settings and chat template.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// Whether a file of this name goes along with a model.
bool is_companion(std::string_view name);
// Whether such a file is a tokenizer by itself.
bool is_tokenizer(std::string_view name);
// Whether it is one that may also make the data of a run: a tokenizer.json, or a SentencePiece model.
bool is_whole_tokenizer(std::string_view name);

// What an import records in provenance.hugging_face, and what the checkpoints of runs keep that begin with it: the text
// of config.json, and name, bytes and CRC32C of each companion in `folder`.
nlohmann::json record_of_model(const std::string& folder, const std::string& config);

// The folder that was imported; empty if there is no record.
std::string recorded_folder(const nlohmann::json& provenance);
// The recorded text of config.json; empty if there is none.
std::string recorded_config(const nlohmann::json& provenance);
// Its model_type; empty if there is none.
std::string recorded_model_type(const nlohmann::json& provenance);

// Copies the recorded companions to `destination`, which has room for them. A file that is gone or has changed since
// the import is left out, with a sentence in `notes`. Returns their names.
std::vector<std::string> copy_companions(const nlohmann::json& provenance, const std::string& destination,
                                         std::vector<std::string>& notes);
std::int64_t companion_bytes(const nlohmann::json& provenance);

}  // namespace trainyard::checkpoint
