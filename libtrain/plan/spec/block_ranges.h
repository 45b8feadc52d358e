// Ranges of blocks as text: a model's global blocks, and the rows of a layout that was read from a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

struct BlockRange {
  std::int64_t begin, end;  // end is exclusive
  bool operator==(const BlockRange&) const = default;
};
using BlockRanges = std::vector<BlockRange>;

// Parses "0, 5, 8:12": at most 4096 ranges, of blocks below 2^20. InputError for any other text.
BlockRanges block_ranges(const std::string& text);

// The text of AttentionConfig::file_blocks: by head, then by row. `|` separates heads, `;` separates rows, and blanks
// separate the ranges of a row: "0 3:7". InputError for any other text. The constants bound the text's length and the
// rows of a head.
inline constexpr std::size_t longest_file_blocks = std::size_t{4} << 20;
inline constexpr std::int64_t most_file_rows = 4096;
std::vector<std::vector<BlockRanges>> file_rows(const std::string& text);
std::string file_text(const std::vector<std::vector<BlockRanges>>& heads);

}  // namespace trainyard::plan
