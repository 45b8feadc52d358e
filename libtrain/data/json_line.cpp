// Walks over a line once, with a stack of open objects and lists.
#include "libtrain/data/json_line.h"

#include <cctype>
#include <string>

namespace trainyard::data {

namespace {

class JsonWalk {
 public:
  explicit JsonWalk(std::string_view text) : text_(text) {}

  bool at_end() {
    white();
    return at_ == text_.size();
  }
  bool take(char c) {
    white();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // A string, with its quotation marks, then ':'.
  bool key(std::string_view& key) {
    white();
    const auto begin = at_;
    if (!string()) return false;
    key = text_.substr(begin, at_ - begin);
    return take(':');
  }
  bool value(std::string_view& value) {
    white();
    const auto begin = at_;
    if (!skip()) return false;
    value = text_.substr(begin, at_ - begin);
    return true;
  }

 private:
  static char closing(char open) { return open == '{' ? '}' : ']'; }

  void white() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n'))
      ++at_;
  }

  // Skips a whole value.
  bool skip() {
    std::string open;
    std::string_view unread;
    for (;;) {
      white();
      if (take('{')) open += '{';
      else if (take('[')) open += '[';
      else if (!scalar()) return false;
      else if (!behind_value(open)) return false;
      else if (open.empty()) return true;
      else continue;
      // Just opened: it is empty, or its first value follows.
      if (take(closing(open.back()))) {
        open.pop_back();
        if (!behind_value(open)) return false;
        if (open.empty()) return true;
      } else if (open.back() == '{' && !key(unread)) {
        return false;
      }
    }
  }

  // Closes what ends here. If anything is still open, the next value follows.
  bool behind_value(std::string& open) {
    std::string_view unread;
    while (!open.empty()) {
      if (take(',')) return open.back() != '{' || key(unread);
      if (!take(closing(open.back()))) return false;
      open.pop_back();
    }
    return true;
  }

  bool scalar() {
    if (at_ == text_.size()) return false;
    if (text_[at_] == '"') return string();
    for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    return number();
  }

  bool string() {
    if (at_ == text_.size() || text_[at_] != '"') return false;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') continue;
      if (++at_ == text_.size()) return false;
      if (text_[at_] != 'u') {
        if (std::string_view("\"\\/bfnrt").find(text_[at_]) == std::string_view::npos) return false;
        continue;
      }
      for (int digit = 0; digit < 4; ++digit)
        if (++at_ == text_.size() || std::isxdigit(static_cast<unsigned char>(text_[at_])) == 0) return false;
    }
    return false;
  }

  bool digits() {
    const auto begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }
  bool one_of(std::string_view set) {
    if (at_ == text_.size() || set.find(text_[at_]) == std::string_view::npos) return false;
    ++at_;
    return true;
  }
  bool number() {
    one_of("-");
    if (one_of("0")) {
      if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return false;
    } else if (!digits()) {
      return false;
    }
    if (one_of(".") && !digits()) return false;
    if (!one_of("eE")) return true;
    one_of("+-");
    return digits();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<JsonMember>> members_of(std::string_view line) {
  JsonWalk walk(line);
  if (!walk.take('{')) return std::nullopt;
  std::vector<JsonMember> members;
  if (!walk.take('}')) do {
      JsonMember member;
      if (!walk.key(member.key) || !walk.value(member.value)) return std::nullopt;
      members.push_back(member);
      if (walk.take('}')) break;
      if (!walk.take(',')) return std::nullopt;
    } while (true);
  if (!walk.at_end()) return std::nullopt;
  return members;
}

std::optional<std::vector<std::string_view>> items_of(std::string_view list) {
  JsonWalk walk(list);
  if (!walk.take('[')) return std::nullopt;
  std::vector<std::string_view> items;
  if (!walk.take(']')) do {
      if (!walk.value(items.emplace_back())) return std::nullopt;
      if (walk.take(']')) break;
      if (!walk.take(',')) return std::nullopt;
    } while (true);
  if (!walk.at_end()) return std::nullopt;
  return items;
}

}  // namespace trainyard::data
