// Copies what is wanted, value by value.
#include "libtrain/data/json_selection.h"

#include "libtrain/data/json_line.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <initializer_list>

namespace trainyard::data {

namespace {

class Selection {
 public:
  Selection(simdjson::dom::parser& parser, std::string& out) : parser_(parser), out_(out) {}

  std::string line(std::string_view line, const WantedKeys& wanted) {
    const auto members = members_of(line);
    if (!members) return "not JSON";
    begin('{');
    if (wanted.chat) {
      for (const char* key : {"prompt", "response", "completion"}) text(*members, key);
      messages(*members, "messages", {"role", "content"});
      messages(*members, "conversations", {"from", "value"});
    } else if (wanted.pair) {
      for (const auto* key : {&wanted.pair->source_key, &wanted.pair->target_key, &wanted.pair->source_language_key,
                              &wanted.pair->target_language_key})
        if (!key->empty()) text(*members, *key);
    } else {
      text(*members, wanted.text_key);
    }
    for (const auto& key : wanted.fields) field(*members, key);
    end('}');
    return reason_;
  }

 private:
  void begin(char bracket) {
    out_ += bracket;
    first_ = true;
  }
  void end(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  void separate() {
    if (!first_) out_ += ',';
    first_ = false;
  }

  bool parses(std::string_view value) { return parser_.parse(simdjson::padded_string(value)).get(parsed_) == 0; }

  // Whether a key as written, with its quotation marks, is this one.
  bool is_key(std::string_view written, std::string_view key) {
    if (written.find('\\') == std::string_view::npos) return written.substr(1, written.size() - 2) == key;
    std::string_view text;
    return parses(written) && !parsed_.get(text) && text == key;  // half of a surrogate pair equals no key
  }

  const JsonMember* begin_member(const std::vector<JsonMember>& members, std::string_view key) {
    const JsonMember* found = nullptr;
    for (const auto& member : members)
      if (is_key(member.key, key)) found = &member;
    if (found == nullptr) return nullptr;
    separate();
    (out_ += found->key) += ':';
    return found;
  }

  void refuse(std::string_view key, std::string_view why) {
    if (reason_.empty()) reason_ = fmt::format("key '{}' {}", key, why);
  }

  // A value that is no list or object.
  void scalar(std::string_view key, std::string_view value) {
    if (value.starts_with('[') || value.starts_with('{') || !parses(value)) {
      if (value.starts_with('"')) refuse(key, "holds half of a surrogate pair");
      value = "[]";
    }
    out_ += value;
  }
  void text(const std::vector<JsonMember>& members, std::string_view key) {
    if (const auto* member = begin_member(members, key)) scalar(key, member->value);
  }
  void field(const std::vector<JsonMember>& members, std::string_view key) {
    const auto* member = begin_member(members, key);
    if (member == nullptr) return;
    const auto digits = member->value.substr(member->value.starts_with('-') ? 1 : 0);
    if (!digits.empty() && digits[0] >= '0' && digits[0] <= '9' && !parses(member->value))
      refuse(key, "is a number beyond 64 bits");
    scalar(key, member->value);
  }

  void messages(const std::vector<JsonMember>& members, std::string_view key,
                std::initializer_list<std::string_view> parts) {
    const auto* member = begin_member(members, key);
    if (member == nullptr) return;
    const auto items = items_of(member->value);
    if (!items) {
      out_ += member->value == "null" ? "null" : "0";  // no list
      return;
    }
    begin('[');
    for (const auto item : *items) {
      separate();
      const auto message = members_of(item);
      if (!message) {
        out_ += '0';  // no object
        continue;
      }
      begin('{');
      for (const auto part : parts) text(*message, part);
      end('}');
    }
    end(']');
  }

  simdjson::dom::parser& parser_;
  simdjson::dom::element parsed_;
  std::string& out_;
  std::string reason_;
  bool first_ = true;
};

}  // namespace

std::string select_members(std::string_view line, const WantedKeys& wanted, simdjson::dom::parser& parser,
                           std::string& selection) {
  selection.clear();
  return Selection(parser, selection).line(line, wanted);
}

}  // namespace trainyard::data
