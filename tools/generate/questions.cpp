// Parses questions and cuts their tokens to the model's context.
#include "tools/generate/questions.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "tools/generate/prompt.h"

#include <algorithm>
#include <set>

namespace trainyard::generate {

namespace {

using Ids = std::vector<std::int32_t>;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw base::InputError(
      where + ": " + what,
      "a line is {\"context\": ..., \"endings\": [...], \"answer\": 0} or {\"text\": ...}; score --help");
}

// Where the white space begins that Python's str.rstrip() removes at the end of a text: Unicode's, and four separators.
std::size_t end_without_space(std::string_view text) {
  auto end = text.size();
  while (true) {
    end = data::bpe::before_space(text, end);
    if (end == 0 || text[end - 1] < '\x1c' || text[end - 1] > '\x1f') return end;
    --end;
  }
}

// The characters of an ending, without the space that only separates it from its context.
std::int64_t characters_of_ending(std::string_view text) {
  if (text.size() > 1 && text[0] == ' ') text.remove_prefix(1);
  // beginnings of UTF-8
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

class QuestionLine {
 public:
  QuestionLine(const std::string& line, std::string where, const data::Tokenizer& tokenizer)
      : json_(json_of_line(line, where, "{\"context\": \"In\", \"endings\": [\" a\", \" b\"], \"answer\": 0}")),
        where_(std::move(where)), tokenizer_(tokenizer) {
    if (!json_.is_object()) refuse(where_, "is no object");
  }

  const nlohmann::ordered_json* find(const char* key) {
    known_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  std::string text(const nlohmann::ordered_json& value, const char* key) const {
    if (!value.is_string()) refuse(where_, fmt::format("'{}' is no text", key));
    return value.get<std::string>();
  }
  std::int32_t unknown_token() const { return tokenizer_.unknown(); }
  // Bytes of a text behind the tokens that it begins with; 0 where it does not begin with their names.
  std::int64_t bytes_behind(const Ids& tokens, std::string_view text) const {
    for (const auto id : tokens) {
      const auto name = tokenizer_.name_of_token(id);
      if (name.empty() || !text.starts_with(name)) return 0;
      text.remove_prefix(name.size());
    }
    return std::ssize(text);
  }
  Ids encoded(const std::string& text) const {
    Ids ids;
    tokenizer_.encode(text, ids);
    return ids;
  }
  Ids ids(const nlohmann::ordered_json& value, const char* key) const {
    if (!value.is_array()) refuse(where_, fmt::format("'{}' is no list of token ids", key));
    Ids out;
    for (const auto& id : value) {
      const bool known = id.is_number_unsigned() && id.get<std::uint64_t>() < base::size(tokenizer_.vocabulary());
      if (!known) refuse(where_, fmt::format("'{}' has {}, which is no token", key, base::excerpt(id.dump())));
      out.push_back(id.get<std::int32_t>());
    }
    return out;
  }
  const nlohmann::ordered_json& list(const nlohmann::ordered_json& value, const char* key) const {
    if (!value.is_array() || value.empty()) refuse(where_, fmt::format("'{}' is no list with endings", key));
    return value;
  }
  void require_known() const {
    for (const auto& [key, value] : json_.items())
      if (!known_.contains(key)) refuse(where_, fmt::format("the key {} is not known", base::excerpt(key)));
  }
  const std::string& where() const { return where_; }

 private:
  nlohmann::ordered_json json_;
  std::string where_;
  const data::Tokenizer& tokenizer_;
  std::set<std::string> known_;
};

bool begins_with(const Ids& tokens, const Ids& with) {
  return tokens.size() >= with.size() && std::equal(with.begin(), with.end(), tokens.begin());
}

// What is put before texts of a line that do not begin with it, and the most tokens before a scored one.
struct Frame {
  const Ids& before;
  std::int64_t room;
};

// One ending behind a context, which loses its beginning where both do not fit.
ToScore ending_behind(Question& q, const Frame& frame, const Ids& context, const Ids& ending,
                      const std::string& where) {
  const auto room = frame.room;
  if (ending.empty()) refuse(where, "an ending has no tokens");
  if (static_cast<std::int64_t>(ending.size()) > room)
    refuse(where, fmt::format("an ending has {}, the model has room for {}",
                              base::counted(static_cast<std::int64_t>(ending.size()), "token"), room));
  const bool has_it = begins_with(context, frame.before);
  auto tokens = has_it ? Ids() : frame.before;
  q.put = q.put || !has_it;
  tokens.insert(tokens.end(), context.begin(), context.end());
  if (tokens.empty()) refuse(where, "nothing stands before an ending: the model needs a token to begin with");
  const auto first = tokens.size();
  tokens.insert(tokens.end(), ending.begin(), ending.end());
  const auto most = base::size(room) + 1, lost = tokens.size() > most ? tokens.size() - most : 0;
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(lost));
  q.cut = std::max(q.cut, static_cast<std::int64_t>(lost));
  return {std::move(tokens), first - lost};
}

void take_endings(QuestionLine& line, Question& q, const Frame& frame) {
  const auto *texts = line.find("endings"), *ids = line.find("endings_ids"), *context = line.find("context"),
             *context_ids = line.find("context_ids");
  if ((texts != nullptr) == (ids != nullptr))
    refuse(line.where(), "has neither or both of 'endings' and 'endings_ids'");
  if (texts != nullptr && context_ids != nullptr) refuse(line.where(), "'context_ids' goes with 'endings_ids'");
  if (ids != nullptr && context != nullptr) refuse(line.where(), "'context' goes with 'endings'");
  if (ids != nullptr) {
    const auto of_context = context_ids != nullptr ? line.ids(*context_ids, "context_ids") : Ids();
    for (const auto& ending : line.list(*ids, "endings_ids")) {
      q.parts.push_back(ending_behind(q, frame, of_context, line.ids(ending, "endings_ids"), line.where()));
      q.characters.push_back(0);
    }
    return;
  }
  auto prompt = context != nullptr ? line.text(*context, "context") : std::string();
  const auto end = end_without_space(prompt);
  const auto spaces = prompt.substr(end);
  prompt.resize(end);
  const auto of_context = line.encoded(prompt);
  for (const auto& ending : line.list(*texts, "endings")) {
    const auto text = line.text(ending, "endings");
    const auto whole = line.encoded(prompt + spaces + text);
    const auto alone = std::min(of_context.size(), whole.size());
    const Ids rest(whole.begin() + static_cast<std::ptrdiff_t>(alone), whole.end());
    q.parts.push_back(ending_behind(q, frame, of_context, rest, line.where()));
    q.characters.push_back(characters_of_ending(text));
  }
}

void take_text(QuestionLine& line, Question& q, const Frame& frame) {
  q.is_text = true;
  const auto& before = frame.before;
  const auto room = frame.room;
  Ids ids;
  bool has_it = false;
  if (const auto* text = line.find("text"); text != nullptr) {
    const auto bytes = line.text(*text, "text");
    ids = line.encoded(bytes);
    has_it = begins_with(ids, before);
    q.bytes = has_it ? line.bytes_behind(before, bytes) : std::ssize(bytes);
  } else {
    ids = line.ids(*line.find("ids"), "ids");
  }
  q.put = !before.empty() && !has_it;
  auto tokens = has_it ? Ids() : before;
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  auto first = std::max<std::size_t>(1, before.size());  // of the next part's scored tokens
  // Bits per byte need the likelihood of every byte.
  const auto unknown = line.unknown_token();
  if (before.empty() || (unknown >= 0 && std::ranges::find(ids, unknown) != ids.end())) q.bytes = 0;
  if (first >= tokens.size()) refuse(line.where(), "the text has no token with another one before it");
  while (first < tokens.size()) {
    const auto end = std::min(tokens.size(), first + base::size(room) - (q.parts.empty() ? first - 1 : 0));
    const auto begin = end - std::min(end, base::size(room) + 1);
    q.parts.push_back(
        {Ids(tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(end)),
         first - begin});
    first = end;
  }
}

}  // namespace

Question question_of(const std::string& text, const std::string& where, const data::Tokenizer& tokenizer,
                     const Beginning& before, std::int64_t room) {
  QuestionLine line(text, where, tokenizer);
  Question q;
  if (const auto* id = line.find("id"); id != nullptr) q.id = *id;
  if (const auto* group = line.find("group"); group != nullptr) q.group = line.text(*group, "group");
  const Ids nothing;
  const auto& known_before = before.tokens.empty() ? before.alone : before.tokens;
  if (line.find("text") != nullptr || line.find("ids") != nullptr) {
    if (line.find("text") != nullptr && line.find("ids") != nullptr) refuse(where, "has both 'text' and 'ids'");
    take_text(line, q, {line.find("ids") != nullptr ? nothing : known_before, room});
  } else {
    const auto *text = line.find("context"), *ids = line.find("context_ids");
    const bool has_text = text != nullptr && *text != "", has_ids = ids != nullptr && !ids->empty();
    take_endings(line, q, {has_ids ? nothing : has_text ? before.tokens : known_before, room});
    if (const auto* answer = line.find("answer"); answer != nullptr) {
      if (!answer->is_number_unsigned() || answer->get<std::uint64_t>() >= q.parts.size())
        refuse(where, fmt::format("'answer' is {}, and there {} {}, counted from 0", base::excerpt(answer->dump()),
                                  q.parts.size() == 1 ? "is" : "are", base::counted(std::ssize(q.parts), "ending")));
      q.answer = answer->get<std::int64_t>();
    }
  }
  line.require_known();
  return q;
}

}  // namespace trainyard::generate
