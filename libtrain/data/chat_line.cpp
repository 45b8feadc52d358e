// Every message is understood, or its line is refused with a reason.
#include "libtrain/data/chat_line.h"

#include "libtrain/base/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <optional>

namespace trainyard::data {

namespace {

using simdjson::dom::element;

std::optional<element> last_of(const simdjson::dom::object& object, std::string_view key) {
  std::optional<element> found;
  for (const auto field : object)
    if (field.key == key) found = field.value;
  return found;
}

std::string add_message(const ChatTemplate& chat, std::string_view role, const std::optional<element>& content,
                        std::string_view key, std::vector<ChatMessage>& messages) {
  ChatMessage message{chat.role(role), {}};
  if (message.role == nullptr) return fmt::format("the template has no role {}", base::excerpt(std::string(role)));
  if (!content) return fmt::format("no key '{}'", key);
  if (content->get(message.content)) return fmt::format("key '{}' is not text", key);
  messages.push_back(message);
  return {};
}

}  // namespace

std::string find_messages(const ChatTemplate& chat, const simdjson::dom::object& object,
                          std::vector<ChatMessage>& messages) {
  const auto list = last_of(object, "messages");
  if (!list || list->is_null()) {
    const auto prompt = last_of(object, "prompt"), response = last_of(object, "response");
    if (!prompt && !response) return "no key 'messages', nor 'prompt' and 'response'";
    auto reason = add_message(chat, "user", prompt, "prompt", messages);
    if (reason.empty()) reason = add_message(chat, "assistant", response, "response", messages);
    return reason;
  }
  simdjson::dom::array all;
  if (list->get(all)) return "key 'messages' is no list";
  for (const auto item : all) {
    simdjson::dom::object message;
    if (item.get(message)) return "a message is no object";
    const auto role = last_of(message, "role");
    std::string_view name;
    if (!role || role->get(name)) return "a message has no role";
    const auto reason = add_message(chat, name, last_of(message, "content"), "content", messages);
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string find_fields(const std::vector<std::string>& keys, const simdjson::dom::object& object,
                        std::vector<std::string>& values) {
  values.assign(keys.size(), {});
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto value = last_of(object, keys[i]);
    std::string_view text;
    std::int64_t number = 0;
    std::uint64_t large = 0;
    bool truth = false;
    if (!value || value->is_null()) continue;
    if (!value->get(text)) values[i] = text;
    else if (!value->get(number)) values[i] = fmt::format("{}", number);
    else if (!value->get(large)) values[i] = fmt::format("{}", large);
    else if (!value->get(truth)) values[i] = truth ? "true" : "false";
    else return fmt::format("key '{}' is no text, whole number or truth value", keys[i]);
    if (values[i].size() > longest_field)
      return fmt::format("the value of '{}' is longer than {} bytes", keys[i], longest_field);
  }
  return {};
}

}  // namespace trainyard::data
