// Searches text for the texts that end it.
#include "tools/generate/shown_text.h"

#include <algorithm>

namespace trainyard::generate {

void StopTexts::write(std::size_t bytes) {
  if (bytes > 0) write_(std::string_view(held_).substr(0, bytes));
  held_.erase(0, bytes);
}

void StopTexts::push(std::string_view more) {
  if (found_) return;
  held_ += more;
  auto first = std::string::npos, end = std::string::npos;
  std::size_t kept = 0;  // bytes at the end that may be the beginning of a stop text
  for (const auto& stop : stops_) {
    if (const auto at = held_.find(stop); at != std::string::npos) {
      const auto its_end = at + stop.size();
      if (its_end < end || (its_end == end && at < first)) first = at, end = its_end;
    }
    for (auto n = std::min(stop.size() - 1, held_.size()); n > kept; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) kept = n;
  }
  found_ = first != std::string::npos;
  write(found_ ? first : held_.size() - kept);
  if (found_) held_.clear();
}

void StopTexts::finish() { write(held_.size()); }

ShownText::ShownText(const data::Tokenizer& tokenizer, const std::vector<std::string>& stops,
                     std::span<const std::int32_t> prompt, const Write& write_prompt, const Write& write)
    : write_prompt_(write_prompt), stop_(stops, write), stream_(tokenizer, [this](std::string_view text) {
        if (continues_) stop_.push(text);
        else if (write_prompt_) write_prompt_(text);
      }) {
  for (const auto token : prompt) stream_.push(token);
  continues_ = true;
}

bool ShownText::push(std::int32_t token) {
  stream_.push(token);
  return !stop_.found();
}

bool ShownText::finish() {
  stream_.finish();
  stop_.finish();
  return !stop_.found();
}

}  // namespace trainyard::generate
