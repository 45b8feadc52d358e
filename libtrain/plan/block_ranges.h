// Ranges of blocks as text: where a model's global blocks are, and the rows of a layout that a file gave.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

struct BlockRange {
  std::int64_t begin, end;  // without the end
  bool operator==(const BlockRange&) const = default;
};
using BlockRanges = std::vector<BlockRange>;

// "0, 5, 8:12", at most 4096 of them, below 2^20. InputError where it is something else.
BlockRanges block_ranges(const std::string& text);

// AttentionConfig::file_blocks: by head, then by row. Rows are `;` apart, heads `|`; a row is ranges, blanks between
// them: "0 3:7". InputError where it is something else. The text is at most so long, and has at most so many rows a
// head.
inline constexpr std::size_t longest_file_blocks = std::size_t{4} << 20;
inline constexpr std::int64_t most_file_rows = 4096;
std::vector<std::vector<BlockRanges>> file_rows(const std::string& text);
std::string file_text(const std::vector<std::vector<BlockRanges>>& heads);

}  // namespace trainyard::plan
