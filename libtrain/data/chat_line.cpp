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

std::string add_message(const ChatRole* role, std::string_view asked, const std::optional<element>& content,
                        std::string_view key, std::vector<ChatMessage>& messages) {
  ChatMessage message{role, {}};
  if (message.role == nullptr) return fmt::format("the template has no role {}", base::excerpt(std::string(asked)));
  if (!content) return fmt::format("no key '{}'", key);
  if (content->get(message.content)) return fmt::format("key '{}' is not text", key);
  messages.push_back(message);
  return {};
}

// How a list of messages names its parts.
struct ListNames {
  const char *list, *role, *content;
};
constexpr ListNames of_messages{"messages", "role", "content"}, of_conversations{"conversations", "from", "value"};

const ChatRole* role_of_sender(const ChatTemplate& chat, std::string_view sender) {
  if (const auto* role = chat.role(sender)) return role;
  return chat.role(sender == "human" ? "user" : sender == "gpt" ? "assistant" : sender);
}

std::string add_list(const ChatTemplate& chat, const element& list, const ListNames& names,
                     std::vector<ChatMessage>& messages) {
  simdjson::dom::array all;
  if (list.get(all)) return fmt::format("key '{}' is no list", names.list);
  for (const auto item : all) {
    simdjson::dom::object message;
    if (item.get(message)) return "a message is no object";
    const auto role = last_of(message, names.role);
    std::string_view name;
    if (!role || role->get(name)) return fmt::format("a message has no {}", names.role);
    const auto* known = &names == &of_conversations ? role_of_sender(chat, name) : chat.role(name);
    auto reason = add_message(known, name, last_of(message, names.content), names.content, messages);
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string add_pair(const ChatTemplate& chat, const simdjson::dom::object& object,
                     std::vector<ChatMessage>& messages) {
  const auto not_null = [&](std::string_view key) {
    auto value = last_of(object, key);
    if (value && value->is_null()) value.reset();
    return value;
  };
  const auto prompt = not_null("prompt"), response = not_null("response"), completion = not_null("completion");
  if (!prompt && !response && !completion) return "no key 'messages' or 'conversations', nor 'prompt' and 'response'";
  if (response && completion) return "keys 'response' and 'completion' are both there";
  auto reason = add_message(chat.role("user"), "user", prompt, "prompt", messages);
  if (!reason.empty()) return reason;
  return completion ? add_message(chat.role("assistant"), "assistant", completion, "completion", messages)
                    : add_message(chat.role("assistant"), "assistant", response, "response", messages);
}

}  // namespace

std::string find_messages(const ChatTemplate& chat, const simdjson::dom::object& object,
                          std::vector<ChatMessage>& messages) {
  for (const auto* names : {&of_messages, &of_conversations})
    if (const auto list = last_of(object, names->list); list && !list->is_null())
      return add_list(chat, *list, *names, messages);
  return add_pair(chat, object, messages);
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
    if (values[i].find('\0') != std::string::npos)  // SET[KEY=VALUE] on a command line has none
      return fmt::format("the value of '{}' has a NUL character", keys[i]);
    if (values[i].size() > longest_field)
      return fmt::format("the value of '{}' is longer than {} bytes", keys[i], longest_field);
  }
  return {};
}

}  // namespace trainyard::data
