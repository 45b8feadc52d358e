// Finds the tokens of a template, and puts conversations together.
#include "libtrain/data/encoded_chat.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/text.h"
#include "libtrain/data/bpe/unicode_classes.h"

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

namespace {

// Writes the tokens of one document. Text between tokens of their own is encoded together, but for its borders.
class ChatWriter {
 public:
  ChatWriter(const Tokenizer& tokenizer, std::vector<std::int32_t>& out) : tokenizer_(tokenizer), out_(out) {}

  void text(std::string_view text) {
    if (takes_space_) text.remove_prefix(bpe::behind_space(text, 0));
    takes_space_ = takes_space_ && text.empty();
    part_ += text;
  }
  void token(std::int32_t id) {
    const auto takes = tokenizer_.takes_space(id);
    if (takes.left) part_.resize(bpe::before_space(part_, part_.size()));
    border();
    out_.push_back(id);
    part_.clear(), before_.clear();
    document_begins_ = false;
    takes_space_ = takes.right;
  }
  // No token crosses a border. Text without tokens, as white space may be, is seen together with what follows.
  void border() {
    if (part_.empty()) return;
    const auto tokens = out_.size();
    tokenizer_.encode_part(part_, {before_, document_begins_}, out_);
    if (out_.size() == tokens) return;
    before_.swap(part_);
    part_.clear();
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t>& out_;
  std::string part_, before_;  // since the last border, and between that and the one before it
  bool document_begins_ = true, takes_space_ = false;
};

}  // namespace

EncodedChat::EncodedChat(const ChatTemplate& chat, const Tokenizer& tokenizer) : chat_(chat), tokenizer_(tokenizer) {
  if (tokenizer.space_behind_words())
    throw base::InputError(
        fmt::format("tokenizer {} puts a space behind each text (treat_whitespace_as_suffix), and a conversation is "
                    "divided where its answers begin",
                    base::one_line(tokenizer.source())),
        "take a tokenizer whose spaces stand before words, as most do");
  for (const auto& token : chat.tokens)
    if (tokenizer.token_named(token) < 0)
      throw base::InputError(
          fmt::format("tokenizer {} has no token {}, which the chat template names", base::one_line(tokenizer.source()),
                      base::excerpt(token)),
          "take the tokenizer of the model that is trained on, another template, or 'plain', which needs no tokens");
  for (const auto& role : chat.roles) around_.push_back({pieces_of(role.prefix), pieces_of(role.suffix)});
}

std::vector<EncodedChat::Piece> EncodedChat::pieces_of(std::string_view text) const {
  std::vector<Piece> out;
  for_each_part(
      chat_, text,
      [&](std::string_view part) {
        out.push_back({part, -1});
      },
      [&](const std::string& name) {
        const auto token = tokenizer_.token_named(name);
        out.push_back(tokenizer_.is_in_text(token) ? Piece{name, -1} : Piece{{}, token});
      });
  return out;
}

void EncodedChat::encode(std::span<const ChatMessage> messages, std::vector<std::int32_t>& tokens,
                         std::vector<AnswerSpan>& answers) const {
  const auto first = std::ssize(tokens), first_answer = std::ssize(answers);
  if (const auto begin = tokenizer_.begin_of_document(); begin >= 0) tokens.push_back(begin);
  ChatWriter writer(tokenizer_, tokens);
  const auto write = [&](const std::vector<Piece>& pieces) {
    for (const auto& piece : pieces) piece.token < 0 ? writer.text(piece.text) : writer.token(piece.token);
  };
  const auto border = [&] {
    writer.border();
    return std::ssize(tokens) - first;
  };
  for (const auto& message : messages) {
    const auto& around = around_[base::size(message.role - chat_.roles.data())];
    const bool is_answer = message.role->answer;
    write(around.prefix);
    const auto from = is_answer ? border() : 0;
    writer.text(message.content);
    write(around.suffix);
    const auto end = is_answer ? border() : 0;
    if (end == from) continue;
    const bool goes_on = std::ssize(answers) > first_answer && answers.back().end == from;
    if (goes_on) answers.back().end = end;
    else answers.push_back({from, end});
  }
  const auto end = border();
  tokens.push_back(tokenizer_.end_of_document());
  if (messages.empty() || !messages.back().role->answer) return;
  if (std::ssize(answers) > first_answer && answers.back().end == end) ++answers.back().end;
  else answers.push_back({end, end + 1});  // an answer without tokens ends all the same
}

}  // namespace trainyard::data
