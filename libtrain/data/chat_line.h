// Conversations, and fields that are kept, in JSON lines.
#pragma once

#include "libtrain/data/chat_template.h"

#include <string>
#include <vector>

namespace simdjson::dom {
class object;
}

namespace trainyard::data {

// Finds the messages of a line: `messages`, a list of objects with `role` and `content`; else `conversations`, one with
// `from` and `value`, where human is the role user, and gpt assistant, unless the template has such a role; else
// `prompt` (of the role user) and `response` or `completion` (of assistant). Of equal keys the last counts; other keys
// are ignored. Returns why the line holds no conversation, or "". The contents are valid as long as the object.
std::string find_messages(const ChatTemplate& chat, const simdjson::dom::object& object,
                          std::vector<ChatMessage>& messages);

// The values of these keys, as texts: a text, a whole number or a truth value; empty for a key that the line lacks, and
// for null. Returns why a value is none of these, or "".
std::string find_fields(const std::vector<std::string>& keys, const simdjson::dom::object& object,
                        std::vector<std::string>& values);
inline constexpr std::size_t longest_field = 256;  // bytes of a value

}  // namespace trainyard::data
