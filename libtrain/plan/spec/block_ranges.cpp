// Reading and writing ranges of blocks.
#include "libtrain/plan/spec/block_ranges.h"

#include "libtrain/base/error.h"

#include <fmt/format.h>

#include <charconv>

namespace trainyard::plan {

namespace {

constexpr std::int64_t most_blocks = 1 << 20, most_ranges = 4096;

[[noreturn]] void refuse_blocks(std::string_view text) {
  throw base::InputError(fmt::format("\"{}\" names no blocks", text.substr(0, 80)),
                         "numbers and ranges, such as \"0, 5, 8:12\", where 8:12 is 8 to 11");
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const auto at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

std::string_view without_blanks(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::int64_t block_number(std::string_view s, std::string_view whole) {
  std::int64_t n = -1;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error != std::errc() || end != s.data() + s.size() || n < 0 || n > most_blocks) refuse_blocks(whole);
  return n;
}

BlockRange one_range(std::string_view s, std::string_view whole) {
  const auto colon = s.find(':');
  if (colon == std::string_view::npos) {
    const auto n = block_number(s, whole);
    return {n, n + 1};
  }
  const BlockRange r{block_number(s.substr(0, colon), whole), block_number(s.substr(colon + 1), whole)};
  if (r.begin >= r.end) refuse_blocks(whole);
  return r;
}

}  // namespace

BlockRanges block_ranges(const std::string& text) {
  BlockRanges out;
  if (without_blanks(text).empty()) return out;
  for (const auto piece : split_at(text, ',')) out.push_back(one_range(without_blanks(piece), text));
  if (static_cast<std::int64_t>(out.size()) > most_ranges) refuse_blocks(text);
  return out;
}

std::vector<std::vector<BlockRanges>> file_rows(const std::string& text) {
  std::vector<std::vector<BlockRanges>> heads;
  for (const auto head : split_at(text, '|')) {
    auto& rows = heads.emplace_back();
    for (const auto row : split_at(head, ';')) {
      auto& ranges = rows.emplace_back();
      for (const auto piece : split_at(row, ' '))
        if (!piece.empty()) ranges.push_back(one_range(piece, row));
    }
  }
  return heads;
}

std::string file_text(const std::vector<std::vector<BlockRanges>>& heads) {
  std::string out;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    if (h > 0) out += '|';
    for (std::size_t i = 0; i < heads[h].size(); ++i) {
      if (i > 0) out += ';';
      for (std::size_t r = 0; r < heads[h][i].size(); ++r) {
        const auto& range = heads[h][i][r];
        if (r > 0) out += ' ';
        out += range.end == range.begin + 1 ? fmt::format("{}", range.begin)
                                            : fmt::format("{}:{}", range.begin, range.end);
      }
    }
  }
  return out;
}

}  // namespace trainyard::plan
