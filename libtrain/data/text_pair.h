// Pairs of a source and a target text, such as a sentence and its translation: where they come from, and one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace simdjson::dom {
class object;
}

namespace trainyard::data {

struct TextPair {
  std::string_view source, target;
  std::string_view source_language = {}, target_language = {};  // empty: not known
};

struct PairLanguages {
  std::string source, target;  // both or none
  bool known() const { return !source.empty(); }
};

// How a source has pairs: line by line in two files, or in JSON lines.
struct PairOptions {
  std::vector<std::string> targets = {};         // files beside the inputs, one for each; empty: JSON lines
  std::vector<PairLanguages> languages = {};     // of each input, or one for all; empty: none, or by keys
  std::string source_key = {}, target_key = {};  // of JSON lines
  std::string source_language_key = {}, target_language_key = {};  // empty: languages are not in the lines
  std::string language_token = "<2{}>";  // {} stands for the target's language; empty: targets have no such token
  std::int64_t max_source = 0, max_target = 0;  // tokens of a side, with the tokens around it; 0: any number

  bool in_files() const { return !targets.empty(); }
  bool has_languages() const { return !languages.empty() || !source_language_key.empty(); }
  // The languages of an input whose lines do not say theirs.
  PairLanguages languages_of(std::size_t input) const;
  std::string token_of(std::string_view language) const;  // the name of the language's token
};

// Fields that a set of pairs with languages keeps beside each document.
inline constexpr const char *source_language_field = "source_language", *target_language_field = "target_language";

// Receives a pair, and returns why it is refused, or "".
using TakePair = std::function<std::string(const TextPair&)>;

// Finds the pair of a JSON line. Of equal keys the last counts; other keys are ignored. Returns why the line holds no
// pair, or "". The texts are valid as long as the object.
std::string find_pair(const PairOptions& options, const simdjson::dom::object& object, TextPair& pair);

// What equal pairs have in common, and no others.
std::string key_of_pair(const TextPair& pair);

// How the reasons for pairs above a limit begin. Such pairs are left out, and do not count as refused.
inline constexpr const char* long_pair = "pair too long: ";

}  // namespace trainyard::data
