// Finds the tokens of a template, and puts conversations together.
#include "libtrain/data/encoded_chat.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/text.h"

namespace trainyard::data {

void for_each_part(const ChatTemplate& chat, std::string_view text, const std::function<void(std::string_view)>& part,
                   const std::function<void(const std::string&)>& token) {
  std::size_t begin = 0;
  const auto end_part = [&](std::size_t end) {
    if (end > begin) part(text.substr(begin, end - begin));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::string* longest = nullptr;
    for (const auto& name : chat.tokens)
      if (text.substr(at).starts_with(name) && (longest == nullptr || name.size() > longest->size())) longest = &name;
    if (longest == nullptr) {
      ++at;
      continue;
    }
    end_part(at);
    token(*longest);
    begin = at += longest->size();
  }
  end_part(text.size());
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

std::vector<std::int32_t> EncodedChat::encoded(std::string_view text) const {
  std::vector<std::int32_t> out;
  for_each_part(
      chat_, text, [&](std::string_view part) { tokenizer_.encode(part, out); },
      [&](const std::string& token) { out.push_back(tokenizer_.token_named(token)); });
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
  const auto end = std::ssize(tokens) - first;
  tokens.push_back(tokenizer_.end_of_document());
  if (messages.empty() || !messages.back().role->answer) return;
  if (std::ssize(answers) > first_answer && answers.back().end == end) ++answers.back().end;
  else answers.push_back({end, end + 1});  // an answer without tokens ends all the same
}

}  // namespace trainyard::data
