// Reads lines, and refuses what cannot be compared.
#include "libtrain/data/translation/lines.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/foreign_content.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::data::translation {

namespace {

constexpr std::string_view standard_input = "standard input";
constexpr std::size_t read_bytes = std::size_t{256} << 10;
const char* const as_lines =
    "each line is one translation in UTF-8, and line n of every file belongs to the same source";

// What to try where the first text, of translations, has so many lines.
std::string way_of(const TextLines& translations) {
  if (translations.number() > 0 || translations.name() != standard_input) return as_lines;
  return base::text("$input FILE names the translations; every file behind $references is a reference");
}

}  // namespace

TextLines::TextLines(const std::string& path)
    : name_(path == "-" ? std::string(standard_input) : source_name(path)),
      input_(std::make_unique<io::InputStream>(path, [] {})) {}

bool TextLines::refill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const auto held = buffer_.size();
  buffer_.resize(held + read_bytes);
  const auto n = input_->read(buffer_.data() + held, read_bytes);
  buffer_.resize(held + n);
  ended_ = n == 0;
  return !ended_;
}

// Before the first line: a pipe may return one byte at a time.
void TextLines::check_head() {
  while (buffer_.size() < foreign_head && refill()) {}
  if (const auto foreign = foreign_content(buffer_, false))
    throw base::InputError(fmt::format("{} is {}", name_, foreign->what), as_lines);
  if (buffer_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
}

bool TextLines::next(std::string& line) {
  if (number_ == 0 && buffer_.empty() && !ended_) check_head();
  auto end = buffer_.find('\n', at_);
  while (end == buffer_.npos && !ended_) {
    const auto held = buffer_.size() - at_;
    if (held > longest_line) break;
    refill();
    end = buffer_.find('\n', at_ + held);
  }
  if (end == buffer_.npos) end = buffer_.size();
  if (end == at_ && at_ == buffer_.size()) return false;
  ++number_;
  if (end - at_ > longest_line)
    throw base::InputError(fmt::format("{}, line {}: longer than {}", name_, number_,
                                       base::binary_size_text(static_cast<std::int64_t>(longest_line))),
                           as_lines);
  line.assign(buffer_, at_, end - at_);
  at_ = std::min(end + 1, buffer_.size());
  if (line.ends_with('\r')) line.pop_back();
  if (!base::is_utf8(line)) throw base::InputError(fmt::format("{}, line {}: is no UTF-8", name_, number_), as_lines);
  return true;
}

ParallelLines::ParallelLines(const std::vector<std::string>& paths) {
  TRAINYARD_ASSERT(!paths.empty(), "{} texts", paths.size());
  if (std::count(paths.begin(), paths.end(), "-") > 1)
    throw base::UsageError("standard input is named twice", "only one text can come from it");
  for (const auto& path : paths) io::InputStream::check(path);  // before any of them is waited for
  for (const auto& path : paths) texts_.push_back(std::make_unique<TextLines>(path));
}

bool ParallelLines::next(std::vector<std::string>& lines) {
  lines.resize(texts_.size());
  std::size_t has = 0;
  for (std::size_t i = 0; i < texts_.size(); ++i)
    if (texts_[i]->next(lines[i])) ++has;
  if (has != 0 && has != texts_.size()) refuse_lengths();
  if (has == 0 && number() == 0)
    throw base::InputError(fmt::format("{} holds no line", name(0)), way_of(*texts_.front()));
  return has != 0;
}

// Counts the lines that are left.
void ParallelLines::refuse_lengths() {
  std::string line;
  for (auto& text : texts_)
    while (text->next(line)) {}
  const auto first = texts_.front()->number();
  const auto other = std::find_if(texts_.begin(), texts_.end(), [&](const auto& t) { return t->number() != first; });
  throw base::InputError(fmt::format("{} has {}, and {} has {}", name(0), base::counted(first, "line"),
                                     (*other)->name(), base::counted((*other)->number(), "line")),
                         way_of(*texts_.front()));
}

}  // namespace trainyard::data::translation
