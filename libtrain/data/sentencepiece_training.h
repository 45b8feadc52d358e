// Trains models with the SentencePiece library.
#pragma once

#include "libtrain/data/new_tokenizer.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

// The longest text that is given to SentencePiece as one sentence, in bytes. It skips sentences above 4192.
inline constexpr std::size_t longest_sentence = 4096;

// The first part of a text: all of a short one, else up to the last line feed or space in reach.
std::string_view first_sentence(std::string_view text);

// The bytes of the model. Calls waiting() ten times a second. InputError where the text does not fit the vocabulary.
std::string train_sentencepiece(const TokenizerPlan& plan, std::vector<std::string> sentences,
                                const std::function<void()>& waiting);

}  // namespace trainyard::data
