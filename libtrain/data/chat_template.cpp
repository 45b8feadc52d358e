// Reads templates, and puts conversations together.
#include "libtrain/data/chat_template.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/text.h"
#include "libtrain/base/toml_file.h"

#include <algorithm>

namespace trainyard::data {

namespace {

constexpr const char* way = "a template has a table [roles.NAME] for each role, with prefix, suffix and answer";

[[noreturn]] void refuse_template(const std::string& path, const std::string& why) {
  throw base::InputError(fmt::format("{}: {}", base::one_line(path), why), way);
}

ChatTemplate chatml() {
  ChatTemplate chat{{"<|im_start|>", "<|im_end|>"}, {}};
  for (const char* role : {"system", "user", "assistant"})
    chat.roles.push_back(
        {role, fmt::format("<|im_start|>{}\n", role), "<|im_end|>\n", role == std::string("assistant")});
  return chat;
}

ChatTemplate plain() {
  return {{}, {{"system", "", "\n"}, {"user", "User: ", "\n"}, {"assistant", "Assistant: ", "\n", true}}};
}

std::string text_at(const toml::node& node, const std::string& path, const std::string& key) {
  const auto text = node.value_exact<std::string>();
  if (!text) refuse_template(path, fmt::format("{} is no text", key));
  return *text;
}

ChatRole role_of(const std::string& name, const toml::node& node, const std::string& path) {
  const auto* table = node.as_table();
  if (table == nullptr) refuse_template(path, fmt::format("roles.{} is no table", base::one_line(name)));
  ChatRole role{name, {}, {}, name == "assistant"};
  for (const auto& [key, value] : *table) {
    const auto full = fmt::format("roles.{}.{}", base::one_line(name), base::one_line(key.str()));
    if (key == "prefix") role.prefix = text_at(value, path, full);
    else if (key == "suffix") role.suffix = text_at(value, path, full);
    else if (const auto is = value.value_exact<bool>(); key == "answer" && is) role.answer = *is;
    else refuse_template(path, fmt::format("{} is not known, or no value of its kind", full));
  }
  return role;
}

}  // namespace

const ChatRole* ChatTemplate::role(std::string_view name) const {
  const auto found = std::find_if(roles.begin(), roles.end(), [&](const auto& r) { return r.name == name; });
  return found == roles.end() ? nullptr : &*found;
}

ChatTemplate chat_template(const std::string& path) {
  if (path == "chatml") return chatml();
  if (path == "plain") return plain();
  const auto file = base::read_toml_file(path);
  ChatTemplate chat;
  for (const auto& [key, value] : file) {
    if (const auto* tokens = value.as_array(); key == "tokens" && tokens != nullptr) {
      for (const auto& token : *tokens) chat.tokens.push_back(text_at(token, path, "a token"));
      if (std::find(chat.tokens.begin(), chat.tokens.end(), "") != chat.tokens.end())
        refuse_template(path, "a token is an empty text");
    } else if (const auto* roles = value.as_table(); key == "roles" && roles != nullptr) {
      for (const auto& [name, role] : *roles) chat.roles.push_back(role_of(std::string(name.str()), role, path));
    } else {
      refuse_template(path, fmt::format("{} is not known, or no value of its kind", base::one_line(key.str())));
    }
  }
  if (chat.roles.empty()) refuse_template(path, "it has no roles");
  if (std::none_of(chat.roles.begin(), chat.roles.end(), [](const auto& role) { return role.answer; }))
    refuse_template(path, "no role answers");
  return chat;
}

std::string text_of(const ChatTemplate& chat) {
  toml::array tokens;
  for (const auto& token : chat.tokens) tokens.push_back(token);
  toml::table roles;
  for (const auto& role : chat.roles)
    roles.insert(role.name, toml::table{{"prefix", role.prefix}, {"suffix", role.suffix}, {"answer", role.answer}});
  std::ostringstream out;
  out << toml::toml_formatter(toml::table{{"tokens", std::move(tokens)}, {"roles", std::move(roles)}}) << '\n';
  return out.str();
}

EncodedChat::EncodedChat(const ChatTemplate& chat, const Tokenizer& tokenizer) : chat_(chat), tokenizer_(tokenizer) {
  for (const auto& token : chat.tokens)
    if (tokenizer.token_named(token) < 0)
      throw base::InputError(
          fmt::format("tokenizer {} has no token {}, which the chat template names", base::one_line(tokenizer.source()),
                      base::excerpt(token)),
          "take the tokenizer of the model that is trained on, another template, or 'plain', which needs no tokens");
  for (const auto& role : chat.roles) around_.push_back({encoded(role.prefix), encoded(role.suffix)});
}

// The first of the longest tokens at each place; text between them as any text.
std::vector<std::int32_t> EncodedChat::encoded(std::string_view text) const {
  std::vector<std::int32_t> out;
  std::size_t begin = 0;
  const auto end_text = [&](std::size_t end) {
    if (end > begin) tokenizer_.encode(text.substr(begin, end - begin), out);
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::string* longest = nullptr;
    for (const auto& token : chat_.tokens)
      if (text.substr(at).starts_with(token) && (longest == nullptr || token.size() > longest->size()))
        longest = &token;
    if (longest == nullptr) {
      ++at;
      continue;
    }
    end_text(at);
    out.push_back(tokenizer_.token_named(*longest));
    begin = at += longest->size();
  }
  end_text(text.size());
  return out;
}

void EncodedChat::encode(std::span<const ChatMessage> messages, std::vector<std::int32_t>& tokens,
                         std::vector<AnswerSpan>& answers) const {
  const auto first = std::ssize(tokens), first_answer = std::ssize(answers);
  if (const auto begin = tokenizer_.begin_of_document(); begin >= 0) tokens.push_back(begin);
  for (const auto& message : messages) {
    const auto& around = around_[base::size(message.role - chat_.roles.data())];
    tokens.insert(tokens.end(), around.prefix.begin(), around.prefix.end());
    const auto from = std::ssize(tokens) - first;
    if (!message.content.empty()) tokenizer_.encode(message.content, tokens);
    tokens.insert(tokens.end(), around.suffix.begin(), around.suffix.end());
    const auto end = std::ssize(tokens) - first;
    if (!message.role->answer || end == from) continue;
    const bool goes_on = std::ssize(answers) > first_answer && answers.back().end == from;
    if (goes_on) answers.back().end = end;
    else answers.push_back({from, end});
  }
  tokens.push_back(tokenizer_.end_of_document());
  if (!messages.empty() && messages.back().role->answer && std::ssize(answers) > first_answer) ++answers.back().end;
}

}  // namespace trainyard::data
