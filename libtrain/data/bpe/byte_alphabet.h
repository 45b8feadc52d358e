// The byte-level alphabet: one character for each of the 256 bytes. A tokenizer.json writes its tokens in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard::data::bpe {

// Printable ASCII and most of Latin-1 are their own characters. The 68 other bytes are U+0100 and on, in ascending
// order.
std::string character_of(unsigned char byte);

// The bytes of a token that is written in the alphabet; nothing when it has a character outside of the alphabet.
std::optional<std::string> bytes_of(std::string_view token);

}  // namespace trainyard::data::bpe
