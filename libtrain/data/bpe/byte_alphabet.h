// The byte-level alphabet: a character for each of the 256 bytes, in which a tokenizer.json writes its tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard::data::bpe {

// Printable ASCII and most of Latin-1 stand for themselves; the 68 other bytes are U+0100 and on, in ascending order.
std::string character_of(unsigned char byte);

// The bytes that a token written in the alphabet stands for; nothing when it has a character outside of it.
std::optional<std::string> bytes_of(std::string_view token);

}  // namespace trainyard::data::bpe
