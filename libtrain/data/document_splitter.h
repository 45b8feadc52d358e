// From bytes to documents. Bytes read front to back are cut into stretches, and any thread can split a stretch by
// itself.
#pragma once

#include "libtrain/data/chat_template.h"
#include "libtrain/data/text_pair.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

// How plain text is split. One document is a file, a line that is not blank, or a run of lines between blank lines.
enum class TextSplit { whole, lines, paragraphs };

struct SplitRules {
  TextSplit split = TextSplit::whole;  // for plain text
  bool json_lines = false;             // one JSON object a line
  std::string json_key = "text";       // for JSON lines
  std::int64_t largest_document = 16;  // bytes, at least 16
  // JSON lines hold conversations: `messages` with role and content, or `prompt` and `response`. Null: they hold texts.
  std::shared_ptr<const ChatTemplate> chat = {};
  std::vector<std::string> fields = {};  // keys of JSON lines whose values are kept beside a document
  // Lines hold pairs, in JSON or side by side in two files. Null: they hold texts. `languages`: of this input.
  std::shared_ptr<const PairOptions> pairs = {};
  PairLanguages languages = {};
};

// A run of bytes of one input that consists of whole documents. Exception: text longer than the largest document may
// continue into the next stretch, and is split where the stretch ends.
struct Stretch {
  std::string bytes;         // the text, followed by spare room
  std::size_t size = 0;      // bytes of the text
  std::string targets = {};  // of pairs in files: as many lines, of the other file
  bool inside_line = false;  // it begins within a line of the stretch before
  bool goes_on = false;      // the next stretch continues a document that is too long
  bool too_long = false;     // stands for a JSON line that is too long; holds no bytes of that line
  std::string_view text() const { return {bytes.data(), size}; }
};

// Cuts one input into stretches. The documents do not depend on the portions in which the bytes arrive. Memory: the
// stretch, and a largest document or `longest_blank`, whichever is more.
class StretchCutter {
 public:
  StretchCutter(SplitRules rules, std::size_t least) : rules_(std::move(rules)), least_(least) {}

  // Returns room for `bytes` more bytes after the held ones. Then call take() with the number of bytes that were
  // written.
  char* room(std::size_t bytes);
  void take(std::size_t bytes) { held_ += bytes; }
  void drop_front(std::size_t bytes);  // removes held bytes at the front: a byte order mark
  std::string_view held() const { return {bytes_.data(), held_}; }
  const SplitRules& rules() const { return rules_; }
  void set_json_lines(bool json_lines) { rules_.json_lines = json_lines; }  // only before the first cut

  // Cuts a stretch of about `least` bytes or more, reusing the memory of `out`. False: more bytes must come first.
  bool cut(Stretch& out);
  void cut_rest(Stretch& out);  // at the end of the input: takes all held bytes, maybe none

 private:
  // The end of the last document that ends in the held bytes; 0: none ends.
  std::size_t boundary();
  // If the held bytes have no boundary: how many of them certainly belong to one document.
  std::size_t decided() const;
  void give(std::size_t bytes, Stretch& out);
  void skip();

  SplitRules rules_;
  std::size_t least_;
  std::string bytes_;
  std::size_t held_ = 0, searched_ = 0;          // there is no boundary before searched_
  std::size_t open_line_ = 0;                    // where the line begins that has no end yet
  bool inside_line_ = false, skipping_ = false;  // skipping_: the rest of a too long line
};

// A longer line of white space counts as text.
inline constexpr std::size_t longest_blank = std::size_t{1} << 20;

// The reason for a document of white space or nothing. It is no error, so it does not count as refused.
inline constexpr const char* empty_document = "empty document";

struct Fault {
  std::int64_t line = 0;  // counted from 1, the first line that begins in the stretch; 0: the line before
  std::string reason;
};

// What is found in a stretch besides documents.
struct Findings {
  std::int64_t lines = 0;  // lines that begin in the stretch
  bool silent = true;      // nothing was taken or refused
  std::vector<Fault> faults;
};

using TakeChat = std::function<void(std::span<const ChatMessage>)>;

// Splits stretches. Each thread needs its own. Memory: for JSON the parser's, some 14 bytes for each byte of the
// longest line.
class DocumentSplitter {
 public:
  DocumentSplitter();
  ~DocumentSplitter();
  DocumentSplitter(const DocumentSplitter&) = delete;

  // Calls take(document) for every good document, in order. A good document is UTF-8, not blank, and at most as long as
  // the largest. The view is valid only during the call.
  // Where the rules have a chat template, take_chat(messages) is called instead, and where they have pairs, take_pair.
  void split(const Stretch& stretch, const SplitRules& rules, const std::function<void(std::string_view)>& take,
             Findings& findings, const TakeChat& take_chat = {}, const TakePair& take_pair = {});
  // The values of the rules' fields, of the document that is taken now. Empty where the line has none. Of pairs with
  // languages, these come first.
  std::span<const std::string> fields() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

bool is_utf8(std::string_view text);
bool is_blank(std::string_view text);  // only white space of JSON

// The length of the longest prefix of at most `limit` bytes that ends between characters.
std::size_t character_boundary(std::string_view text, std::size_t limit);

}  // namespace trainyard::data
