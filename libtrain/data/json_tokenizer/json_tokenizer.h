// Tokenizers from a tokenizer.json of the `tokenizers` package: BPE, WordPiece and Unigram. They give the same ids as
// that package.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <memory>
#include <string>

namespace trainyard::data::json_tokenizer {

// `json` is the content of the file `path`. InputError for a file that is no such tokenizer, or needs something that is
// not supported. Its encode throws InputError for text that is no UTF-8, where a pattern gives up (bpe/pattern.h), and
// for text without a token, where the file has no unknown token.
std::unique_ptr<Tokenizer> make_json_tokenizer(const std::string& path, std::string json, const DocumentTokens& around);

}  // namespace trainyard::data::json_tokenizer
