// Lines of several texts that belong together: translations and their references.
#pragma once

#include "libtrain/io/input_stream.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::translation {

// Reads a text line by line. gzip and zstd are unpacked, "-" is standard input. A line ends with LF or CRLF, the last
// one also with the text. A byte order mark in front of the text is no part of it.
// InputError, naming input and line: what io::InputStream refuses; content that is no text (data/foreign_content.h); a
// line that is no UTF-8; a line longer than `longest_line`.
class TextLines {
 public:
  static constexpr std::size_t longest_line = std::size_t{16} << 20;  // bytes
  explicit TextLines(const std::string& path);
  bool next(std::string& line);                    // false: there is none
  std::int64_t number() const { return number_; }  // of the lines so far
  const std::string& name() const { return name_; }

 private:
  bool refill();
  void check_head();

  std::string name_;
  std::unique_ptr<io::InputStream> input_;
  std::string buffer_;
  std::size_t at_ = 0;  // what follows in buffer_ is not read yet
  bool ended_ = false;
  std::int64_t number_ = 0;
};

// Reads line n of all texts together. InputError where the texts have different numbers of lines, with the numbers, or
// no line. UsageError where standard input is named twice.
class ParallelLines {
 public:
  explicit ParallelLines(const std::vector<std::string>& paths);
  bool next(std::vector<std::string>& lines);  // in the order of the paths
  std::int64_t number() const { return texts_.front()->number(); }
  const std::string& name(std::size_t text) const { return texts_[text]->name(); }

 private:
  [[noreturn]] void refuse_lengths();
  std::vector<std::unique_ptr<TextLines>> texts_;
};

}  // namespace trainyard::data::translation
