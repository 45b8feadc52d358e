// Taking the layout of a file into a model.
#include "libtrain/plan/spec/file_layout.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/spec/block_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::plan {

namespace {

BlockRanges ranges_of(const base::BlockMap& map, std::int64_t row) {
  const auto* present = map.present.data() + row * map.n;
  BlockRanges out;
  for (std::int64_t j = 0; j < map.n; ++j) {
    if (present[j] == 0) continue;
    if (!out.empty() && out.back().end == j) ++out.back().end;
    else out.push_back({j, j + 1});
  }
  return out;
}

}  // namespace

std::string blocks_text(const base::BlockMap& map, const std::string& where) {
  std::vector<std::vector<BlockRanges>> heads(base::size(map.heads));
  for (std::int64_t row = 0; row < map.heads * map.n; ++row)
    base::at(heads, row / map.n).push_back(ranges_of(map, row));
  auto text = file_text(heads);
  if (text.size() > longest_file_blocks)
    throw base::InputError(fmt::format("{}: its blocks take {} bytes as ranges, and a model holds at most {}", where,
                                       base::count_text(static_cast<std::int64_t>(text.size())),
                                       base::count_text(static_cast<std::int64_t>(longest_file_blocks))),
                           "larger blocks, fewer heads with layouts of their own, or rows of longer runs");
  return text;
}

void take_file_layout(ModelConfig& m, const std::vector<base::Field>& fields, const std::string& model_file,
                      LayoutReader read) {
  auto& a = m.attention;
  if (!has_file_layout(m) || a.file.empty() || !a.file_blocks.empty()) return;
  if (read == nullptr)
    throw base::InputError(fmt::format("{}: attention-file {} is not read here", model_file, a.file),
                           "give a plan or a checkpoint of the model, which has the layout in it");
  const auto path = (std::filesystem::path(model_file).parent_path() / a.file).string();
  const auto map = read(path);
  for (const auto& f : fields)
    if (f.name == "attention-block" && f.source != base::from_default && a.block != map.block)
      throw base::InputError(
          fmt::format("{}: attention-block is {}, the blocks of {} are of {}", model_file, a.block, path, map.block),
          "leave attention-block out: the file of the layout says it");
  a.block = map.block;
  a.file_blocks = blocks_text(map, path);
}

bool has_file_layout(const ModelConfig& m) {
  const auto& all = m.attention.layout;
  return std::find(all.begin(), all.end(), "file") != all.end();
}

std::string name_of_file_layout(const AttentionConfig& a) { return a.file.empty() ? "attention-file-blocks" : a.file; }

std::int64_t file_rows_a_side(const AttentionConfig& a) {
  const auto& text = a.file_blocks.str();
  return 1 + std::count(text.begin(), std::find(text.begin(), text.end(), '|'), ';');
}

std::int64_t file_heads(const AttentionConfig& a) {
  const auto& text = a.file_blocks.str();
  return 1 + std::count(text.begin(), text.end(), '|');
}

std::int64_t longest_sequence(const ModelConfig& m) {
  return has_file_layout(m) ? std::min(m.context, file_rows_a_side(m.attention) * m.attention.block) : m.context;
}

LengthProblem length_problem(const ModelConfig& m, std::int64_t sequence) {
  if (!has_file_layout(m)) return {};
  const auto& a = m.attention;
  const auto side = file_rows_a_side(a), asked = (sequence + a.block - 1) / a.block;
  if (side == asked) return {};
  return {base::text("the layout of {} has {} blocks of {} a side, $sequence {} has {}", name_of_file_layout(a), side,
                     a.block, sequence, asked),
          base::text("$sequence {}, or a layout of another size", longest_sequence(m))};
}

FileBlocks count_file_blocks(const AttentionConfig& a) {
  FileBlocks out;
  for (const auto& rows : file_rows(a.file_blocks.str()))
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (const auto& range : rows[i]) {
        out.all += range.end - range.begin;
        out.above += std::max<std::int64_t>(0, range.end - std::max(range.begin, static_cast<std::int64_t>(i) + 1));
      }
  return out;
}

std::string dropped_text(const ModelConfig& m) {
  if (!has_file_layout(m) || !m.attention.causal) return {};
  const auto blocks = count_file_blocks(m.attention);
  if (blocks.above == 0) return {};
  return fmt::format("{} of the {} blocks of {} lie above the diagonal, and the model is causal: they are left out",
                     base::count_text(blocks.above), base::count_text(blocks.all), name_of_file_layout(m.attention));
}

}  // namespace trainyard::plan
