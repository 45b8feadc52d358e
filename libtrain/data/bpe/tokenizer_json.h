// Reads a tokenizer.json of the `tokenizers` package.
#pragma once

#include "libtrain/data/bpe/definition.h"

#include <cstdint>
#include <string>

namespace trainyard::data::bpe {

inline constexpr std::int64_t largest_tokenizer_json = std::int64_t{64} << 20;  // bytes; Llama 3's has 17 MB

// InputError for a file that is no such tokenizer, contradicts itself, or has something unsupported that would change
// ids. It names the part and what to do. `where` names the file.
Definition definition_from_json(const std::string& json, const std::string& where);

}  // namespace trainyard::data::bpe
