// From bytes to documents: what is read front to back is cut into stretches, which any thread splits by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

enum class TextSplit {
  whole,
  lines,
  paragraphs
};  // of plain text: one document a file, a line that is not blank, or a run of lines between blank lines

struct SplitRules {
  TextSplit split = TextSplit::whole;  // of plain text
  bool json_lines = false;             // a JSON object a line
  std::string json_key = "text";       // of JSON lines
  std::int64_t largest_document = 16;  // bytes, at least 16
};

// A run of bytes of one input in which no document ends that began before it, and none goes on behind it but text that
// is longer than the largest document, which is cut where the stretch ends.
struct Stretch {
  std::string bytes;         // the text, and room behind it
  std::size_t size = 0;      // of the text
  bool inside_line = false;  // it begins within a line of the stretch before
  bool goes_on = false;      // the next one goes on within a document that is too long
  bool too_long = false;     // stands for a JSON line that is longer than the largest document, and holds none of it
  std::string_view text() const { return {bytes.data(), size}; }
};

// Cuts what one input holds into stretches. They are the same documents for any way in which the bytes arrive. Memory:
// the stretch, and a largest document or `longest_blank`, whichever is more.
class StretchCutter {
 public:
  StretchCutter(SplitRules rules, std::size_t least) : rules_(std::move(rules)), least_(least) {}

  // Room for `bytes` bytes more behind those that are held; take() says how many of them came.
  char* room(std::size_t bytes);
  void take(std::size_t bytes) { held_ += bytes; }
  void drop_front(std::size_t bytes);  // of what is held: a byte order mark
  std::string_view held() const { return {bytes_.data(), held_}; }
  const SplitRules& rules() const { return rules_; }
  void set_json_lines(bool json_lines) { rules_.json_lines = json_lines; }  // before the first cut

  // A stretch of about `least` bytes or more, into the memory that `out` has; false: more must come first.
  bool cut(Stretch& out);
  void cut_rest(Stretch& out);  // all that is held, at the end of the input; it may be nothing

 private:
  std::size_t boundary();       // behind the last document that ends in what is held; 0: none does
  std::size_t decided() const;  // where what is held has no boundary: bytes that are text of one document for certain
  void give(std::size_t bytes, Stretch& out);
  void skip();

  SplitRules rules_;
  std::size_t least_;
  std::string bytes_;
  std::size_t held_ = 0, searched_ = 0;          // before `searched` lies no boundary
  std::size_t open_line_ = 0;                    // where the line begins that has no end yet
  bool inside_line_ = false, skipping_ = false;  // skipping: what is left of a line that was too long
};

// A line of more bytes of white space is text.
inline constexpr std::size_t longest_blank = std::size_t{1} << 20;

// The reason of a document that is white space or nothing: nobody's fault, so that it does not count as refused.
inline constexpr const char* empty_document = "empty document";

struct Fault {
  std::int64_t line = 0;  // counted from 1, the first line that begins in the stretch; 0: the line before
  std::string reason;
};

// What is found in a stretch beside documents.
struct Findings {
  std::int64_t lines = 0;  // that begin there
  bool silent = true;      // nothing was taken or refused
  std::vector<Fault> faults;
};

// Splits stretches; one a thread. Memory: for JSON what its parser needs, some 14 bytes for each of the longest line.
class DocumentSplitter {
 public:
  DocumentSplitter();
  ~DocumentSplitter();
  DocumentSplitter(const DocumentSplitter&) = delete;

  // Calls take(document) for every good one, in order: UTF-8, not blank, at most as long as the largest. What it sees
  // is gone when it returns.
  void split(const Stretch& stretch, const SplitRules& rules, const std::function<void(std::string_view)>& take,
             Findings& findings);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

bool is_utf8(std::string_view text);
bool is_blank(std::string_view text);  // white space of JSON and nothing else

// The longest prefix of at most `limit` bytes that ends between characters.
std::size_t character_boundary(std::string_view text, std::size_t limit);

}  // namespace trainyard::data
