// LinePairs: two inputs read side by side, line by line.
#pragma once

#include "libtrain/io/input_stream.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::data {

// Lines of one input. Of a line of more than `most` bytes only most + 1 are kept. A byte order mark at the beginning is
// not part of the first line. Memory: `least` bytes of fill(), and a longest line.
class LineSide {
 public:
  LineSide(const std::string& path, const std::function<void()>& poll, std::int64_t most);
  // InputError for content that is no text (foreign_content.h). Holds at least one line and `least` bytes of lines, as
  // far as the input has them.
  void fill(std::size_t least);
  std::int64_t lines() const { return lines_; }                      // whole lines that are held
  void take(std::int64_t lines, std::string& out);                   // moves the first of them, with line feeds
  std::int64_t count_rest();                                         // drops all lines that follow, and counts them
  std::int64_t bytes_taken() const { return input_.bytes_taken(); }  // before unpacking
  const std::string& path() const { return path_; }

 private:
  bool read_more(std::size_t bytes);
  void keep(const char* from, std::size_t bytes);  // of one line

  std::string path_;
  io::InputStream input_;
  std::size_t most_, line_begin_ = 0;  // line_begin_: where the line begins that has no end yet
  std::string held_, buffer_;
  std::int64_t lines_ = 0;
  bool at_end_ = false, first_ = true;
};

class LinePairs {
 public:
  // `most`: bytes of a line.
  LinePairs(const std::string& sources, const std::string& targets, const std::function<void()>& poll,
            std::int64_t most);
  // The next lines of both, as many of one as of the other. False: there are none. InputError where one input ends
  // before the other; it has both counts.
  bool next(std::size_t least, std::string& sources, std::string& targets);
  std::int64_t bytes_taken() const { return source_.bytes_taken() + target_.bytes_taken(); }

 private:
  LineSide source_, target_;
  std::int64_t taken_ = 0;  // lines of each
};

}  // namespace trainyard::data
