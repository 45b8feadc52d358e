// The part of a JSON line that is read, where the whole line is beyond a parser of RFC 8259.
#pragma once

#include "libtrain/data/text_pair.h"

#include <string>
#include <string_view>
#include <vector>

namespace simdjson::dom {
class parser;
}

namespace trainyard::data {

// What is read of a line.
struct WantedKeys {
  bool chat = false;  // messages (chat_line.h), in which only role and content count
  std::string_view text_key = {};
  const std::vector<std::string>& fields;
  const PairOptions* pair = nullptr;  // the texts of a pair, and its languages
};

// Writes the members that are wanted as a line of RFC 8259; of equal keys the last. Lists and objects where a text is
// wanted are written as empty lists. Returns why a wanted value is none that JSON can hold, or "". The line must be
// UTF-8.
std::string select_members(std::string_view line, const WantedKeys& wanted, simdjson::dom::parser& parser,
                           std::string& selection);

}  // namespace trainyard::data
