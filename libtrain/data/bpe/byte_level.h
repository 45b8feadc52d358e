// Byte-level BPE as in GPT-2 and Llama 3, from a tokenizer.json of the `tokenizers` package. It gives the same ids as
// that package.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <memory>
#include <string>

namespace trainyard::data::bpe {

// `json` is the content of the file `path`. InputError for a file that is no such tokenizer, or needs something that is
// not supported. Its encode throws InputError for text that is no UTF-8, and where a pattern gives up (pattern.h).
std::unique_ptr<Tokenizer> make_byte_level(const std::string& path, std::string json, const DocumentTokens& around);

}  // namespace trainyard::data::bpe
