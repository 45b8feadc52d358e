// Definition: the content of a tokenizer.json of the `tokenizers` package, as far as byte-level BPE needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

inline constexpr std::int64_t most_ids = std::int64_t{1} << 22;  // all ids are below it
inline constexpr std::size_t longest_added_token = 256;          // in bytes
inline constexpr std::size_t most_steps = 16;

// A token that is matched in the text before anything else.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool normalized = false;                       // searched after the tokens that are not normalized
  bool special = false;                          // a sign and no text, but still found in text
  bool left_strip = false, right_strip = false;  // also takes the white space beside it
  bool single_word = false;                      // not found where a word character is next to it
};

struct Merge {
  std::int32_t left = 0, right = 0, merged = 0;
};

// A step that splits text into pieces. Steps run in order, and each step treats the pieces of the previous step as
// separate texts.
struct Step {
  enum class Kind {
    pattern,       // matches, and the text between matches, become pieces
    literal,       // the same for a plain text
    punctuation,   // each punctuation character becomes a piece
    punctuations,  // each run of punctuation characters becomes a piece
    alphabet,      // replaces bytes by their characters (byte_alphabet.h); later steps see these
    prefix_space   // puts a space before a piece that begins with none
  } kind = Kind::pattern;
  std::string text = {};
};

struct Definition {
  std::vector<std::string> tokens;  // bytes by id; empty where the id has no token of text
  std::vector<Merge> merges;        // in order of rank
  bool ignore_merges = false;       // a piece that is a token becomes that token, without merges
  std::vector<AddedToken> added;
  bool composes = false;  // text between the added tokens that are not `normalized` is put into NFC first
  std::vector<Step> steps;
  std::vector<std::int32_t> before_text;  // the post_processor puts these before each text (text_template.h)
};

}  // namespace trainyard::data::bpe
