// The copy of a tokenizer that stands beside a checkpoint, so that the checkpoint outlives its data.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
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

// What a tokenizer's file says of its tokens. The caller can read every kind of file.
struct FileTokens {
  std::int32_t mask = -1, unknown = -1;                // -1: it has none
  std::vector<std::int32_t> before_text = {};          // what the file itself puts before each text
  std::function<std::string(std::int32_t)> name = {};  // empty: no such token
  std::function<bool(std::int32_t)> is_in_text = {};   // whether text that is the name becomes the token
};
// Whether a name is no text: "<s>", "[MASK]".
bool is_sign(const std::string& name);

struct SpecialIds {
  std::int32_t end = -1, begin = -1, mask = -1;  // -1: none
};
// The name by which settings may call a token; empty: it has none. A part of words has none, because in transformers a
// token of the settings is cut out of the text first.
std::string special_name(const KeptTokenizer& tokenizer, const std::optional<FileTokens>& tokens, std::int32_t id);
// Settings for transformers: the class that reads any tokenizer file, and the names of tokens. Without a class
// transformers takes the one of the model's family, which may give other ids.
nlohmann::ordered_json tokenizer_config(const KeptTokenizer& tokenizer, const std::optional<FileTokens>& tokens,
                                        const SpecialIds& ids);

}  // namespace trainyard::checkpoint
