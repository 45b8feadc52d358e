// Keeps the lines of each side until the other has as many.
#include "libtrain/data/line_pairs.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/data/foreign_content.h"
#include "libtrain/data/source_name.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace trainyard::data {

LineSide::LineSide(const std::string& path, const std::function<void()>& poll, std::int64_t most)
    : path_(path), input_(path, poll), most_(base::size(most)) {}

void LineSide::keep(const char* from, std::size_t bytes) {
  const auto there = held_.size() - line_begin_;
  held_.append(from, std::min(bytes, most_ + 1 - std::min(there, most_ + 1)));
}

bool LineSide::read_more(std::size_t bytes) {
  if (at_end_) return false;
  const auto wanted = first_ ? foreign_head : 1;  // a pipe may return one byte at a time
  buffer_.resize(std::max(bytes, wanted));
  std::size_t held = 0;
  for (std::size_t n = 1; n > 0 && held < wanted; held += n)
    n = input_.read(buffer_.data() + held, buffer_.size() - held);
  std::string_view text(buffer_.data(), held);
  if (std::exchange(first_, false)) {
    if (const auto foreign = foreign_content(text, false))
      throw base::InputError(fmt::format("{} is {}", source_name(path_), foreign->what), foreign->way);
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  }
  at_end_ = held == 0;
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    keep(text.data(), end);
    held_ += '\n';
    line_begin_ = held_.size();
    ++lines_;
  }
  keep(text.data(), text.size());
  if (!at_end_ || held_.size() == line_begin_) return !at_end_;
  held_ += '\n';  // the last line may have none
  line_begin_ = held_.size();
  ++lines_;
  return true;
}

void LineSide::fill(std::size_t least) {
  while ((held_.size() < least || lines_ == 0) && read_more(std::max<std::size_t>(least, 16))) {}
}

void LineSide::take(std::int64_t lines, std::string& out) {
  std::size_t end = lines == lines_ ? line_begin_ : 0;
  if (end == 0)
    for (std::int64_t i = 0; i < lines; ++i) end = held_.find('\n', end) + 1;
  out.assign(held_, 0, end);
  held_.erase(0, end);
  line_begin_ -= end;
  lines_ -= lines;
}

std::int64_t LineSide::count_rest() {
  std::int64_t all = 0;
  do {
    all += std::exchange(lines_, 0);
    held_.erase(0, line_begin_);
    line_begin_ = 0;
  } while (read_more(1 << 16));
  return all + lines_;
}

LinePairs::LinePairs(const std::string& sources, const std::string& targets, const std::function<void()>& poll,
                     std::int64_t most)
    : source_(sources, poll, most), target_(targets, poll, most) {}

bool LinePairs::next(std::size_t least, std::string& sources, std::string& targets) {
  source_.fill(least);
  target_.fill(least);
  const auto lines = std::min(source_.lines(), target_.lines());
  if (lines == 0 && source_.lines() + target_.lines() > 0) {
    const auto in_source = taken_ + source_.count_rest(), in_target = taken_ + target_.count_rest();
    throw base::InputError(fmt::format("{} has {}, and {} has {}: a line of one belongs to a line of the other",
                                       source_name(source_.path()), base::counted(in_source, "line"),
                                       source_name(target_.path()), base::counted(in_target, "line")),
                           "give two files that were aligned; a text that lacks a side has an empty line there");
  }
  source_.take(lines, sources);
  target_.take(lines, targets);
  taken_ += lines;
  return lines > 0;
}

}  // namespace trainyard::data
