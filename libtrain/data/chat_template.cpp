// Reads templates.
#include "libtrain/data/chat_template.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/text.h"
#include "libtrain/base/toml_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

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

// Refuses what is no template: a name that is not known, a folder, and Jinja.
void refuse_other_templates(const std::string& path) {
  constexpr const char* known =
      "templates are chatml, plain, or a TOML file with a table [roles.NAME] for each role: the page conversations "
      "shows one";
  std::error_code error;
  const auto type = std::filesystem::status(base::path_of_text(path), error).type();
  const auto name = base::one_line(path);
  if (type == std::filesystem::file_type::directory)
    throw base::InputError(fmt::format("{} is a folder, and no chat template has this name", name), known);
  if (type == std::filesystem::file_type::not_found)
    throw base::InputError(fmt::format("there is no chat template {}, and no file of this name", name), known);
  if (type != std::filesystem::file_type::regular) return;  // a pipe can be read once
  std::ifstream file(base::path_of_text(path), std::ios::binary);
  std::string begin(256, '\0');
  file.read(begin.data(), std::ssize(begin));
  begin.resize(base::size(file.gcount()));
  const auto first = begin.find_first_not_of(" \t\r\n");
  const auto at = first == begin.npos ? std::string() : begin.substr(first, 2);
  const bool named = path.ends_with(".jinja") || path.ends_with(".jinja2") || path.ends_with(".j2");
  if (named || at == "{%" || at == "{{" || at == "{#")
    throw base::InputError(fmt::format("{} is a chat template in Jinja, which is not read", name), known);
}

}  // namespace

const ChatRole* ChatTemplate::role(std::string_view name) const {
  const auto found = std::find_if(roles.begin(), roles.end(), [&](const auto& r) { return r.name == name; });
  return found == roles.end() ? nullptr : &*found;
}

ChatTemplate chat_template(const std::string& path) {
  if (path == "chatml") return chatml();
  if (path == "plain") return plain();
  refuse_other_templates(path);
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

std::string key_of_conversation(std::span<const ChatMessage> messages) {
  std::string key;
  for (const auto& m : messages)
    key += fmt::format("{}:{}:{}{}", m.role->name.size(), m.content.size(), m.role->name, m.content);
  return key;
}

}  // namespace trainyard::data
