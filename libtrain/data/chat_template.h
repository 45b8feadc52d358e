// Chat templates: how the messages of a conversation become one document, and which of its tokens are answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

struct ChatRole {
  std::string name, prefix, suffix;
  bool answer = false;  // content and suffix of its messages are what a model learns to write
};

struct ChatTemplate {
  std::vector<std::string> tokens;  // words of prefixes and suffixes that are tokens of the tokenizer
  std::vector<ChatRole> roles;
  const ChatRole* role(std::string_view name) const;  // nullptr: it has none of this name
};

// "chatml", "plain", or the path of a TOML file. InputError for a file that is no template.
ChatTemplate chat_template(const std::string& name_or_path);
// The text of a template's file, from which chat_template reads the same.
std::string text_of(const ChatTemplate& chat);

// A message of a conversation. `role` is of the template.
struct ChatMessage {
  const ChatRole* role = nullptr;
  std::string_view content;
};

// What equal conversations have in common, and no others.
std::string key_of_conversation(std::span<const ChatMessage> messages);

// A range of the tokens of a document, a shard or a stretch.
struct AnswerSpan {
  std::int64_t begin = 0, end = 0;
  bool operator==(const AnswerSpan&) const = default;
};

}  // namespace trainyard::data
