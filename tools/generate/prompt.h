// The prompt: where it comes from, and its tokens.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::generate {

// text: the prompt itself, or "-" for standard input; file: a path. At most one is given; none is the beginning of a
// document, an empty text here. Of a file or standard input one line feed at the end is left out. UsageError for both,
// or an empty text; InputError for a file that is empty, larger than 16 MiB, or cannot be read.
std::string read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& file);

// An end of document, behind which texts begin in training, and the tokens of the prompt. InputError when that is more
// than `context`, or when the tokenizer has no token for a part of the prompt.
std::vector<std::int32_t> prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt,
                                        std::int64_t context);

}  // namespace trainyard::generate
