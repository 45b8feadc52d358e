// Reads a tokenizer.json of the `tokenizers` package.
#pragma once

#include "libtrain/data/json_tokenizer/added_tokens.h"
#include "libtrain/data/json_tokenizer/cutters.h"
#include "libtrain/data/json_tokenizer/decoder.h"
#include "libtrain/data/json_tokenizer/normalizers.h"
#include "libtrain/data/pieces/model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::data::json_tokenizer {

inline constexpr std::int64_t largest_tokenizer_json = std::int64_t{64} << 20;  // bytes; Gemma's has 33 MB

// How tokens that begin a word look.
struct WordBeginning {
  enum class Sign {
    white_space,  // the text begins with white space
    mark,         // the token begins with a mark for a space
    no_prefix     // the token does not begin with the mark of a continued word
  } sign = Sign::white_space;
  std::string mark = {};
};

// What a file consists of.
struct Parts {
  std::string kind;                 // "byte-level BPE", "BPE", "WordPiece", "Unigram"
  std::vector<std::string> tokens;  // by id: bytes of text for byte-level BPE, else as the file has them; empty: none
  bool tokens_are_bytes = false;
  std::vector<AddedToken> added;
  Normalizers normalizers;
  std::vector<Cutter> cutters;
  bool writes_alphabet = false;  // pieces are in the byte-level alphabet, and the model takes bytes
  std::unique_ptr<pieces::Model> model;
  std::int32_t unknown = -1;
  WordBeginning words;
  Decoder decoder;
  std::vector<std::int32_t> before_text;  // the post_processor puts these before each text (text_template.h)
};

// InputError for a file that is no such tokenizer, contradicts itself, or has something unsupported that would change
// ids. It names the part and what to do. `where` names the file.
Parts parts_from_json(const std::string& json, const std::string& where);

}  // namespace trainyard::data::json_tokenizer
