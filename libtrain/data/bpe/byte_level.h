// Byte-level BPE as GPT-2 and Llama 3 use it, from a tokenizer.json of the `tokenizers` package: the same ids.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <memory>
#include <string>

namespace trainyard::data::bpe {

// `json`: the content of the file `path`. InputError for a file that is no such tokenizer, or asks for what is not
// supported. Its encode throws InputError for text that is no UTF-8, and where a pattern gives up (pattern.h).
std::unique_ptr<Tokenizer> make_byte_level(const std::string& path, std::string json, const DocumentTokens& around);

}  // namespace trainyard::data::bpe
