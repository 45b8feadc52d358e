// Pairs: what generate does with a model that has an encoder. A prompt is a source, and the answer its target.
#pragma once

#include "tools/generate/loaded.h"
#include "tools/generate/pair_answers.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::generate {

// The tokens of a source, as shard-data --pairs makes them: the token that begins documents, if there is one, the text,
// and an end of document. InputError for a text without tokens, with more than `room`, or with a part for which the
// tokenizer has no token.
std::vector<std::int32_t> source_tokens(const data::Tokenizer& tokenizer, std::string_view text, std::int64_t room);

// What a decoder reads first: its start, and the token of the language, unless that is empty. The token is <2LANGUAGE>,
// or the one that is named itself, as in "__de__". InputError for a language without a token.
std::vector<std::int32_t> first_tokens_of(const plan::ModelConfig& model, const data::Tokenizer& tokenizer,
                                          const std::string& language);

// How targets are written: greedily, unless the options name something else. UsageError for options that do not go
// together, or not with an encoder.
PairSettings pair_settings(const Options& options, const data::Tokenizer& tokenizer, std::vector<std::int32_t> ends,
                           std::vector<std::int32_t> stop_tokens);
void require_options_of_pairs(const Options& options);

// Answers the prompt of the options, or all prompts of a file, and prints the answers.
void write_targets(const Options& options, const std::optional<std::string>& prompt);

}  // namespace trainyard::generate
