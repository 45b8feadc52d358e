// Definition: what a tokenizer.json of the `tokenizers` package says, as far as byte-level BPE needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

inline constexpr std::int64_t largest_tokenizer_json = std::int64_t{64} << 20;  // bytes; Llama 3's has 17 MB
inline constexpr std::int64_t most_ids = std::int64_t{1} << 22;                 // ids are below
inline constexpr std::size_t longest_added_token = 256;                         // bytes
inline constexpr std::size_t most_steps = 16;

// Matched in the text before anything else.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool normalized = false;                       // looked for after those that are not
  bool special = false;                          // a sign, and no text; found in text all the same
  bool left_strip = false, right_strip = false;  // takes the white space beside it along
  bool single_word = false;                      // not found between characters of words
};

struct Merge {
  std::int32_t left = 0, right = 0, merged = 0;
};

// What cuts text into pieces, in order; each step sees the pieces of the one before as texts of their own.
struct Step {
  enum class Kind {
    pattern,       // matches and what lies between them become pieces
    literal,       // likewise, of a plain text
    punctuation,   // each character of it becomes a piece
    punctuations,  // each run of such characters does
    alphabet,      // writes bytes with the characters that stand for them (byte_alphabet.h), which later steps see
    prefix_space   // puts a space in front of a piece that begins with none
  } kind = Kind::pattern;
  std::string text = {};
};

struct Definition {
  std::vector<std::string> tokens;  // bytes by id; empty where no token of text has the id
  std::vector<Merge> merges;        // in the order of their ranks
  bool ignore_merges = false;       // a piece that is a token is that token, whatever the merges would make of it
  std::vector<AddedToken> added;
  bool composes = false;  // text between the added tokens that are not `normalized` is put into NFC first
  std::vector<Step> steps;
  std::vector<std::int32_t> before_text;  // put before each text by the post_processor (text_template.h)
};

// InputError, naming the part and what to do, for a file that is no such tokenizer, holds what would change ids and is
// not supported, or contradicts itself. `where` names the file.
Definition definition_from_json(const std::string& json, const std::string& where);

}  // namespace trainyard::data::bpe
