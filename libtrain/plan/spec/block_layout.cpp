// The rule of each layout, row by row.
#include "libtrain/plan/spec/block_layout.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/random.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/spec/block_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>

namespace trainyard::plan {

namespace {

struct Row {
  const AttentionConfig& a;
  std::int64_t n, head, i;
  std::vector<char>& there;  // [n]
  void add(std::int64_t begin, std::int64_t end) const {
    for (auto j = std::max<std::int64_t>(begin, 0); j < std::min(end, n); ++j) base::at(there, j) = 1;
  }
};

std::int64_t seen_end(const Row& r) { return r.a.causal ? r.i + 1 : r.n; }  // end of the columns that a row may see

struct Window {
  std::int64_t begin, end;
};
// The window that contains block i. Windows follow one another with these sizes, and the last size repeats.
Window window_of(const std::vector<std::int64_t>& sizes, std::int64_t i, std::int64_t n) {
  std::int64_t begin = 0;
  std::size_t at = 0;
  while (at + 1 < sizes.size() && i >= begin + sizes[at]) begin += sizes[at++];
  begin += (i - begin) / sizes[at] * sizes[at];
  return {begin, std::min(begin + sizes[at], n)};
}

// Adds up to `count` random columns: distinct ones that the row may see and that are not present yet, or all of these
// if they are fewer. A partial shuffle (Fisher and Yates), keyed by seed, layer, head and row.
void draw(const Row& r, std::int64_t layer, std::int64_t count) {
  std::vector<std::int64_t> left;
  for (std::int64_t j = 0; j < seen_end(r); ++j)
    if (base::at(r.there, j) == 0) left.push_back(j);
  const auto site = base::site_hash("attention layout", fmt::format("{} {}", layer, r.head));
  for (std::size_t k = 0; k < left.size() && static_cast<std::int64_t>(k) < count; ++k) {
    const auto words = base::random_words(r.a.seed, site, (static_cast<std::uint64_t>(r.i) << 32) + k);
    const auto rest = static_cast<double>(left.size() - k);
    const auto chosen =
        k + std::min(static_cast<std::size_t>(base::uniform53(words[0], words[1]) * rest), left.size() - k - 1);
    std::swap(left[k], left[chosen]);
    base::at(r.there, left[k]) = 1;
  }
}

void fixed_row(const Row& r) {
  const auto local = r.a.local.at(0), place = local - (1 + r.head % r.a.patterns) * r.a.global;
  const auto own = window_of(r.a.local, r.i, r.n);
  r.add(own.begin, own.end);
  for (std::int64_t w = 0; w < r.n; w += local) {
    // In a short last window, global columns move to the end of the window. In a causal model they stay: a longer text
    // would otherwise change them. There, every row that could see them has them in its own window anyway.
    const auto begin = w + local <= r.n || r.a.causal ? w + place : std::min(w + place, r.n - r.a.global);
    r.add(begin, begin + r.a.global);
    if (r.a.horizontal && r.i >= begin && r.i < begin + r.a.global) r.add(0, r.n);
  }
}

void variable_row(const Row& r, const BlockRanges& global) {
  const auto own = window_of(r.a.local, r.i, r.n);
  r.add(own.begin, own.end);
  for (const auto& range : global) {
    r.add(range.begin, range.end);
    if (r.a.horizontal && r.i >= range.begin && r.i < range.end) r.add(0, r.n);
  }
}

void window_row(const Row& r, const BlockRanges& global) {
  r.add(r.i - r.a.window / 2, r.i + r.a.window / 2 + 1);
  for (const auto& range : global) {
    r.add(range.begin, range.end);
    if (r.i >= range.begin && r.i < range.end) r.add(0, r.n);
  }
}

void sliding_row(const Row& r) {
  if (r.a.causal) r.add(r.i + 1 - r.a.window, r.i + 1);
  else r.add(r.i - r.a.window / 2, r.i + r.a.window / 2 + 1);
}

void make_row(const Row& r, std::int64_t layer, const BlockRanges& global, const BlockRanges& file) {
  const auto& layout = r.a.layout.at(0);
  std::int64_t random = 0;
  if (layout == "fixed") fixed_row(r);
  else if (layout == "variable") variable_row(r, global), random = std::max<std::int64_t>(r.a.random, 0);
  else if (layout == "bigbird") window_row(r, {{0, r.a.global}}), random = r.a.random < 0 ? 1 : r.a.random;
  else if (layout == "longformer") window_row(r, global);
  else if (layout == "sliding") sliding_row(r);
  else if (layout == "file")
    for (const auto& range : file) r.add(range.begin, range.end);
  else r.add(0, r.n);
  if (r.a.causal) std::fill(r.there.begin() + r.i + 1, r.there.end(), 0);
  if (random > 0) draw(r, layer, random);
}

// Sorted, without overlaps, and below `n`.
BlockRanges merged(BlockRanges ranges, std::int64_t n) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& x, const auto& y) { return x.begin < y.begin; });
  BlockRanges out;
  for (const auto& r : ranges) {
    if (r.begin >= n) break;
    const auto end = std::min(r.end, n);
    if (!out.empty() && r.begin <= out.back().end) out.back().end = std::max(out.back().end, end);
    else out.push_back({r.begin, end});
  }
  return out;
}

}  // namespace

bool is_sparse(const ModelConfig& m) { return m.attention.layout.at(0) != "dense"; }

BlockLayout block_layout(const ModelConfig& m, std::int64_t layer, std::int64_t sequence) {
  const auto& a = m.attention;
  const auto& layout = a.layout.at(0);
  BlockLayout out;
  out.block = a.block;
  out.n = (sequence + a.block - 1) / a.block;
  const auto file = layout == "file" ? file_rows(a.file_blocks.str()) : std::vector<std::vector<BlockRanges>>();
  if (layout == "file") out.heads = static_cast<std::int64_t>(file.size());
  else if (a.per_head) out.heads = m.heads;
  for (const auto& head : file)
    if (static_cast<std::int64_t>(head.size()) != out.n)
      throw base::InputError(
          fmt::format("the layout of {} has {} rows of blocks, a sequence of {} tokens has {}",
                      a.file.empty() ? "a file" : a.file, head.size(), sequence, out.n),
          base::text("$sequence {}, or a layout of another size", head.size() * base::size(a.block)));
  const auto global =
      layout == "variable" || layout == "longformer" ? merged(block_ranges(a.global_blocks), out.n) : BlockRanges();
  out.row_begin.push_back(0);
  std::vector<char> there;
  for (std::int64_t h = 0; h < out.heads && std::ssize(out.columns) <= most_layout_columns; ++h) {
    const std::vector<BlockRanges> no_rows;
    const auto& rows = file.empty() ? no_rows : base::at(file, h);
    for (std::int64_t i = 0; i < out.n; ++i) {
      there.assign(base::size(out.n), 0);
      make_row({a, out.n, h, i, there}, a.shared_draws ? 0 : layer, global,
               rows.empty() ? BlockRanges() : base::at(rows, i));
      for (std::int64_t j = 0; j < out.n; ++j)
        if (base::at(there, j) != 0) out.columns.push_back(static_cast<std::int32_t>(j));
      out.row_begin.push_back(static_cast<std::int64_t>(out.columns.size()));
    }
  }
  return out;
}

namespace {

struct BlockCounts {
  std::int64_t all, near;  // near: those that the layer's window reaches
};

// Counts columns of `layout` of which some key is less than `window` tokens away from some query; 0: any.
std::int64_t near_blocks(const BlockLayout& layout, std::int64_t window) {
  if (window == 0) return std::ssize(layout.columns);
  const auto reach = (window - 2 + layout.block) / layout.block;  // in blocks
  std::int64_t near = 0;
  for (std::int64_t h = 0; h < layout.heads; ++h)
    for (std::int64_t i = 0; i < layout.n; ++i)
      for (const auto j : layout.row(h, i)) near += static_cast<std::int64_t>(std::abs(i - j) <= reach);
  return near;
}

BlockCounts block_counts(const ModelConfig& m, std::int64_t sequence) {
  struct Known {
    AttentionConfig attention;
    std::int64_t heads, sequence;
    BlockCounts counts;
  };
  static std::mutex guard;
  static std::deque<Known> known;
  const auto heads = m.attention.per_head ? m.heads : 1;
  const std::lock_guard lock(guard);
  for (const auto& k : known)
    if (k.heads == heads && k.sequence == sequence && k.attention == m.attention) return k.counts;
  const auto layout = block_layout(m, 0, sequence);
  known.push_back(
      {m.attention, heads, sequence, {std::ssize(layout.columns), near_blocks(layout, window_of(m, sequence))}});
  if (known.size() > 64) known.pop_front();
  return known.back().counts;
}

// The blocks that dense attention computes in each head.
double dense_blocks(const ModelConfig& m, std::int64_t sequence) {
  const auto n = static_cast<double>((sequence + m.attention.block - 1) / m.attention.block);
  return m.attention.causal ? n * (n + 1) / 2 : n * n;
}

}  // namespace

std::int64_t block_count(const ModelConfig& m, std::int64_t sequence) { return block_counts(m, sequence).all; }

double density(const ModelConfig& m, std::int64_t sequence) {
  if (!is_sparse(m)) return 1;
  return static_cast<double>(block_count(m, sequence)) / static_cast<double>(m.attention.per_head ? m.heads : 1) /
         dense_blocks(m, sequence);
}

std::int64_t window_of(const ModelConfig& m, std::int64_t sequence) {
  const auto window = m.attention.window_tokens.at(0);
  return window < sequence ? window : 0;
}

double computed_share(const ModelConfig& m, std::int64_t sequence) {
  const auto window = window_of(m, sequence);
  if (window == 0) return sequence > 0 ? density(m, sequence) : 1;
  // Out of reach are the pairs of a triangle of this side, on each side of the diagonal.
  const auto t = static_cast<double>(sequence), side = static_cast<double>(sequence - window);
  const double pairs = m.attention.causal ? 1 - side * (side + 1) / (t * (t + 1)) : 1 - side * (side + 1) / (t * t);
  if (!is_sparse(m)) return pairs;
  return std::min(pairs, static_cast<double>(block_counts(m, sequence).near) /
                             static_cast<double>(m.attention.per_head ? m.heads : 1) / dense_blocks(m, sequence));
}

}  // namespace trainyard::plan
