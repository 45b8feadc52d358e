// StretchCutter searches boundaries from the back, so that reading touches few bytes. DocumentSplitter goes line by
// line.
#include "libtrain/data/document_splitter.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/chat_line.h"
#include "libtrain/data/json_selection.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace trainyard::data {

namespace {

constexpr std::string_view line_mark = "\xEF\xBB\xBF";
// A parser that has seen a longer line is replaced, because it keeps its memory.
constexpr std::size_t lasting_parser = std::size_t{1} << 20;

std::int64_t line_ends(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

// The position after the last line feed in text[from, end), or `from` without one.
std::size_t line_begin(std::string_view text, std::size_t from, std::size_t end) {
  if (end == from) return from;
  const auto* found = static_cast<const char*>(::memrchr(text.data() + from, '\n', end - from));
  return found == nullptr ? from : base::size(found - text.data()) + 1;
}

// The position after the first line feed at or after `from`, or the end of the text.
std::size_t line_end(std::string_view text, std::size_t from) {
  if (from == text.size()) return from;
  const auto* found = static_cast<const char*>(std::memchr(text.data() + from, '\n', text.size() - from));
  return found == nullptr ? text.size() : base::size(found - text.data()) + 1;
}

// The next line of a text, without its line feed and a carriage return before it; moves `text` behind it.
std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_blank_line(std::string_view line) { return line.size() <= longest_blank && is_blank(line); }

}  // namespace

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
}

std::size_t character_boundary(std::string_view text, std::size_t limit) {
  std::size_t n = std::min(limit, text.size());
  if (n == text.size()) return n;
  for (int back = 0; back < 4 && n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80; ++back) --n;
  return n == 0 ? limit : n;
}

char* StretchCutter::room(std::size_t bytes) {
  const auto wanted = held_ + bytes + simdjson::SIMDJSON_PADDING;
  if (bytes_.size() < wanted) bytes_.resize(wanted);
  return bytes_.data() + held_;
}

void StretchCutter::drop_front(std::size_t bytes) {
  held_ -= bytes;
  std::memmove(bytes_.data(), bytes_.data() + bytes, held_);
}

std::size_t StretchCutter::boundary() {
  if (!rules_.json_lines && rules_.split == TextSplit::whole) return 0;
  const auto text = held();
  const auto last = line_begin(text, searched_, held_);
  if (last == searched_) {
    searched_ = held_;
    return 0;
  }
  if (rules_.json_lines || rules_.split == TextSplit::lines) return last;
  for (auto end = last; end > open_line_;) {
    const auto begin = line_begin(text, open_line_, end - 1);
    if (!(begin == 0 && inside_line_) && is_blank_line(text.substr(begin, end - begin))) return end;
    end = begin;
  }
  open_line_ = last;
  searched_ = held_;
  return 0;
}

std::size_t StretchCutter::decided() const {
  const bool text = rules_.split == TextSplit::whole || (open_line_ == 0 && inside_line_) ||
                    !is_blank_line(held().substr(open_line_));
  return text ? held_ : open_line_;
}

void StretchCutter::give(std::size_t bytes, Stretch& out) {
  out.bytes.swap(bytes_);
  out.size = bytes;
  out.inside_line = inside_line_;
  out.goes_on = out.too_long = false;
  held_ -= bytes;
  room(0);
  std::memcpy(bytes_.data(), out.bytes.data() + bytes, held_);
  if (bytes > 0) inside_line_ = out.bytes[bytes - 1] != '\n';
  searched_ = open_line_ = 0;
}

void StretchCutter::skip() {
  const auto end = line_end(held(), 0);
  skipping_ = end == 0 || bytes_[end - 1] != '\n';
  std::memmove(bytes_.data(), bytes_.data() + end, held_ - end);
  held_ -= end;
  searched_ = open_line_ = 0;
}

bool StretchCutter::cut(Stretch& out) {
  if (skipping_) skip();
  const auto most = base::size(rules_.largest_document);
  if (held_ < least_ && !(rules_.json_lines && held_ > most)) return false;
  if (const auto end = boundary(); end > 0) {
    if (held_ < least_) return false;
    give(end, out);
    return true;
  }
  if (rules_.json_lines) {
    if (held_ <= most) return false;
    give(0, out);
    out.too_long = true;
    skipping_ = true;
    held_ = 0;
    return true;
  }
  const auto known = decided();
  std::size_t cut = 0;
  while (known - cut > most) cut += character_boundary(held().substr(cut, known - cut), most);
  if (cut == 0) return false;
  give(cut, out);
  out.goes_on = true;
  return true;
}

void StretchCutter::cut_rest(Stretch& out) {
  if (skipping_) skip();
  give(held_, out);
}

class DocumentSplitter::Work {
 public:
  void split(const Stretch& stretch, const SplitRules& rules, const std::function<void(std::string_view)>& take,
             Findings& findings, const TakeChat& take_chat, const TakePair& take_pair) {
    rules_ = &rules;
    take_chat_ = &take_chat;
    take_pair_ = &take_pair;
    findings_ = &findings;
    take_ = &take;
    findings = {};
    if (stretch.too_long) {
      findings.lines = 1;
      return refuse_long_line(1);
    }
    all_utf8_ = is_utf8(stretch.text());
    if (rules_->pairs && rules_->pairs->in_files()) return line_pairs(stretch);
    if (rules_->json_lines) json_lines(stretch.text());
    else if (rules_->split == TextSplit::whole) whole(stretch);
    else plain_lines(stretch);
  }

 private:
  void refuse(std::int64_t line, std::string reason) {
    findings_->silent = false;
    findings_->faults.push_back({line, std::move(reason)});
  }
  void refuse_long_line(std::int64_t line) {
    refuse(line, fmt::format("line longer than {} bytes", rules_->largest_document));
  }

  void hand_on(std::string_view text, std::int64_t line, bool utf8) {
    if (is_blank(text)) return refuse(line, empty_document);
    if (!utf8 && !is_utf8(text)) return refuse(line, "invalid UTF-8");
    findings_->silent = false;
    (*take_)(text);
  }

  // Takes a document of plain text; if it is too long, in parts.
  void document(std::string_view text, std::int64_t line) {
    const auto most = base::size(rules_->largest_document);
    while (text.size() > most) {
      const auto n = character_boundary(text, most);
      hand_on(text.substr(0, n), line, all_utf8_);
      line += line_ends(text.substr(0, n));
      text.remove_prefix(n);
    }
    if (!text.empty()) hand_on(text, line, all_utf8_);
  }

  void whole(const Stretch& stretch) {
    const auto text = stretch.text();
    document(text, stretch.inside_line ? 0 : 1);
    findings_->lines = line_ends(text) + (text.empty() || text.back() == '\n' ? 0 : 1) -
                       (stretch.inside_line && !text.empty() ? 1 : 0);
  }

  void plain_lines(const Stretch& stretch) {
    const auto text = stretch.text();
    const bool paragraphs = rules_->split == TextSplit::paragraphs;
    std::int64_t line = stretch.inside_line ? -1 : 0, first_line = line + 1;
    std::size_t first = 0;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = line_end(text, begin);
      ++line;
      const bool part =
          (begin == 0 && stretch.inside_line) || (stretch.goes_on && end == text.size() && text[end - 1] != '\n');
      const bool blank = !part && is_blank_line(text.substr(begin, end - begin));
      if (paragraphs && !blank) continue;
      // A blank line ends a paragraph. Any other line is a document itself.
      document(text.substr(first, (blank ? begin : end) - first), first_line);
      first = end;
      first_line = line + 1;
    }
    document(text.substr(first), first_line);
    findings_->lines = std::max<std::int64_t>(line, 0);
  }

  void json_lines(std::string_view text) {
    std::int64_t line = 0;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = line_end(text, begin);
      json_line(text.substr(begin, end - begin), ++line);
    }
    findings_->lines = line;
  }

  // The parser may read beyond the line: the text is followed by spare room.
  void json_line(std::string_view text, std::int64_t line) {
    const auto length = text.size() - (text.ends_with('\n') ? 1 : 0);
    if (static_cast<std::int64_t>(length) > rules_->largest_document) return refuse_long_line(line);
    if (is_blank(text)) return refuse(line, empty_document);
    if (!all_utf8_ && !is_utf8(text)) return refuse(line, "invalid UTF-8");
    if (text.starts_with(line_mark)) text.remove_prefix(line_mark.size());
    if (parser_seen_ > lasting_parser) parser_ = simdjson::dom::parser(), parser_seen_ = 0;
    parser_seen_ = std::max(parser_seen_, text.size());
    simdjson::dom::element root;
    if (parser_.parse(text.data(), text.size(), false).get(root)) {
      // Other programs write and read such lines. Only what is read of them must be valid.
      const auto reason = select_members(
          text, {rules_->chat != nullptr, rules_->json_key, rules_->fields, rules_->pairs.get()}, parser_, selection_);
      if (!reason.empty()) return refuse(line, reason);
      if (parser_.parse(selection_).get(root)) return refuse(line, "not JSON");
    }
    simdjson::dom::object object;
    if (root.get(object)) return refuse(line, "not a JSON object");
    if (const auto reason = find_fields(rules_->fields, object, fields_); !reason.empty()) return refuse(line, reason);
    if (rules_->chat) return chat_line(object, line);
    if (rules_->pairs) {
      TextPair found{{}, {}, rules_->languages.source, rules_->languages.target};
      if (const auto reason = find_pair(*rules_->pairs, object, found); !reason.empty()) return refuse(line, reason);
      return pair(found, line, true);
    }
    std::optional<simdjson::dom::element> value;
    for (const auto field : object)
      if (field.key == rules_->json_key) value = field.value;  // the last of equal keys counts, as for most readers
    if (!value) return refuse(line, fmt::format("no key '{}'", rules_->json_key));
    json_text(*value, line);
  }

  void line_pairs(const Stretch& stretch) {
    auto sources = stretch.text();
    std::string_view targets = stretch.targets;
    const bool utf8 = all_utf8_ && is_utf8(targets);
    for (; !sources.empty(); ++findings_->lines) {
      const auto line = findings_->lines + 1;
      const TextPair found{take_line(sources), take_line(targets), rules_->languages.source, rules_->languages.target};
      fields_.clear();
      if (std::max(std::ssize(found.source), std::ssize(found.target)) > rules_->largest_document)
        refuse_long_line(line);
      else pair(found, line, utf8);
    }
  }

  void pair(const TextPair& found, std::int64_t line, bool utf8) {
    const bool no_source = is_blank(found.source), no_target = is_blank(found.target);
    if (no_source || no_target)
      return refuse(line, no_source && no_target ? empty_document : no_source ? "empty source" : "empty target");
    if (!utf8 && !(is_utf8(found.source) && is_utf8(found.target))) return refuse(line, "invalid UTF-8");
    if (rules_->pairs->has_languages())
      fields_.insert(fields_.begin(), {std::string(found.source_language), std::string(found.target_language)});
    findings_->silent = false;
    if (auto reason = (*take_pair_)(found); !reason.empty()) refuse(line, std::move(reason));
  }

  void chat_line(const simdjson::dom::object& object, std::int64_t line) {
    messages_.clear();
    const auto reason = find_messages(*rules_->chat, object, messages_);
    if (!reason.empty()) return refuse(line, reason);
    if (std::all_of(messages_.begin(), messages_.end(), [](const auto& m) { return is_blank(m.content); }))
      return refuse(line, empty_document);
    findings_->silent = false;
    (*take_chat_)(messages_);
  }

  void json_text(const simdjson::dom::element& value, std::int64_t line) {
    std::string_view content;
    if (value.get(content)) return refuse(line, fmt::format("key '{}' is not text", rules_->json_key));
    hand_on(content, line, false);
  }

  const SplitRules* rules_ = nullptr;
  simdjson::dom::parser parser_;
  std::size_t parser_seen_ = 0;
  bool all_utf8_ = true;  // the whole stretch is UTF-8, and so is each document in it
  Findings* findings_ = nullptr;
  const std::function<void(std::string_view)>* take_ = nullptr;
  const TakeChat* take_chat_ = nullptr;
  const TakePair* take_pair_ = nullptr;
  std::vector<ChatMessage> messages_;
  std::string selection_;

 public:
  std::vector<std::string> fields_;
};

DocumentSplitter::DocumentSplitter() : work_(std::make_unique<Work>()) {}
DocumentSplitter::~DocumentSplitter() = default;

std::span<const std::string> DocumentSplitter::fields() const { return work_->fields_; }

void DocumentSplitter::split(const Stretch& stretch, const SplitRules& rules,
                             const std::function<void(std::string_view)>& take, Findings& findings,
                             const TakeChat& take_chat, const TakePair& take_pair) {
  work_->split(stretch, rules, take, findings, take_chat, take_pair);
}

}  // namespace trainyard::data
