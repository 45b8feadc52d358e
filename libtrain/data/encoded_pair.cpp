// Puts the two sides of a pair together.
#include "libtrain/data/encoded_pair.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

namespace trainyard::data {

EncodedPair::EncodedPair(const PairOptions& options, const Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  if (options.language_token.empty()) return;
  for (const auto& languages : options.languages)
    if (const auto name = options.token_of(languages.target); tokenizer.token_named(name) < 0)
      throw base::InputError(
          fmt::format("tokenizer {} has no token {}, with which targets in the language {} begin",
                      base::one_line(tokenizer.source()), base::excerpt(name), base::excerpt(languages.target)),
          base::text("$language-token spells it otherwise, with {{}} for the language; $language-token none: targets "
                     "begin with their text; $train-tokenizer makes a tokenizer that has it"));
}

std::string EncodedPair::encode(const TextPair& pair, std::vector<std::int32_t>& tokens, AnswerSpan& target) const {
  tokens.clear();
  if (const auto begin = tokenizer_.begin_of_document(); begin >= 0) tokens.push_back(begin);
  tokenizer_.encode(pair.source, tokens);
  tokens.push_back(tokenizer_.end_of_document());
  target.begin = std::ssize(tokens);
  if (!pair.target_language.empty() && !options_.language_token.empty()) {
    const auto name = options_.token_of(pair.target_language);
    const auto token = tokenizer_.token_named(name);
    if (token < 0) return fmt::format("the tokenizer has no token {}", base::excerpt(name));
    tokens.push_back(token);
  }
  tokenizer_.encode(pair.target, tokens);
  tokens.push_back(tokenizer_.end_of_document());
  target.end = std::ssize(tokens);
  const auto above = [](const char* side, std::int64_t found, std::int64_t most, const std::string& setting) {
    return fmt::format("{}{} tokens in the {}, above {} {}", long_pair, found, side, setting, most);
  };
  if (options_.max_source > 0 && target.begin > options_.max_source)
    return above("source", target.begin, options_.max_source, base::setting_name("max-source"));
  if (options_.max_target > 0 && target.end - target.begin > options_.max_target)
    return above("target", target.end - target.begin, options_.max_target, base::setting_name("max-target"));
  return {};
}

}  // namespace trainyard::data
