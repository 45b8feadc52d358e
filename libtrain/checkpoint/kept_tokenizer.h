// The copy of a tokenizer that stands beside a checkpoint, so that the checkpoint outlives its data.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// The name of the copy in the folder of a run, or of a checkpoint that no run made: "tokenizer-1a2b3c4d.json", or
// .model for SentencePiece.
std::string kept_tokenizer_name(std::string_view source, std::uint32_t crc32c);
bool is_kept_tokenizer_name(std::string_view name);

// The content of a tokenizer and the name of its copy.
struct KeptTokenizer {
  std::string path, name, content;  // path: where it was found; empty: nowhere
};
// Where the copy may be, in the order in which it is looked for: the run's folder, and the checkpoint's own.
std::vector<std::string> places_of_tokenizer(const std::string& checkpoint, const nlohmann::json& provenance);
// Looks for the tokenizer that the provenance records, in these places and where it was when the checkpoint was made.
// A file with another CRC32C is none.
KeptTokenizer kept_tokenizer(const std::string& checkpoint, const nlohmann::json& provenance);

// Settings for transformers: the class that reads any tokenizer file, and the tokens that end and begin documents by
// their texts, as a tokenizer.json has them. Without a class transformers takes the one of the model's family, which
// may give other ids.
std::string tokenizer_config(const KeptTokenizer& tokenizer, const nlohmann::json& provenance);

}  // namespace trainyard::checkpoint
