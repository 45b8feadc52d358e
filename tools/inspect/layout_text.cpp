// Draws layouts as squares of characters or as SVG.
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "tools/common/svg_chart.h"
#include "tools/inspect/layout.h"
#include "tools/inspect/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::inspect {

namespace {

constexpr std::int64_t most_cells = 32, most_cells_in_svg = 96;  // cells on a side
constexpr std::size_t most_squares = 12;

// A layout in square cells of `each` by `each` blocks.
struct Cells {
  std::int64_t each = 1, side = 0;
  std::vector<double> share;  // [side, side], the share of a cell's blocks that are computed
  double at(std::int64_t i, std::int64_t j) const { return share[static_cast<std::size_t>(i * side + j)]; }
};

Cells cells_of(const plan::BlockLayout& b, std::int64_t head, std::int64_t most) {
  Cells out;
  out.each = (b.n + most - 1) / most;
  out.side = (b.n + out.each - 1) / out.each;
  out.share.assign(static_cast<std::size_t>(out.side * out.side), 0);
  for (std::int64_t i = 0; i < b.n; ++i)
    for (const auto j : b.row(head, i))
      out.share[static_cast<std::size_t>(i / out.each * out.side + j / out.each)] += 1;
  const auto blocks_in = [&](std::int64_t cell) { return std::min(out.each, b.n - cell * out.each); };
  for (std::int64_t i = 0; i < out.side; ++i)
    for (std::int64_t j = 0; j < out.side; ++j)
      out.share[static_cast<std::size_t>(i * out.side + j)] /= static_cast<double>(blocks_in(i) * blocks_in(j));
  return out;
}

// A list of numbers as text: "0-2, 5"; at most eight runs.
std::string runs_text(const std::vector<std::int64_t>& numbers) {
  constexpr int most = 8;
  std::string out;
  int runs = 0;
  for (std::size_t i = 0; i < numbers.size(); ++runs) {
    if (runs == most) return out + fmt::format(" and {} more", numbers.size() - i);
    auto end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ", numbers[i],
                       end > i + 1 ? fmt::format("-{}", numbers[end - 1]) : "");
    i = end;
  }
  return out;
}

std::string title_of(const ShownLayout& s) {
  if (s.layers.empty()) return s.name;
  return fmt::format("{}, {} {}", s.name, s.layers.size() == 1 ? "layer" : "layers", runs_text(s.layers));
}

std::string numbers_of_layout(const Layouts& layouts, const ShownLayout& s, const LayoutCounts& c) {
  auto out = fmt::format(
      "  {} blocks{}, {} of {}; rows of {}\n", human_count(c.blocks),
      s.blocks.heads > 1 ? fmt::format(" in {} heads", s.blocks.heads) : "",
      percent(static_cast<double>(c.blocks) / static_cast<double>(c.of)),
      c.of < s.blocks.heads * s.blocks.n * s.blocks.n ? "the diagonal and what is below it" : "the square",
      c.shortest == c.longest ? fmt::format("{}", c.longest) : fmt::format("{} to {}", c.shortest, c.longest));
  if (c.empty_rows > 0)
    out += fmt::format("  {} without a block: {} nothing\n", base::counted(c.empty_rows, "row"),
                       c.empty_rows == 1 ? "it sees" : "they see");
  if (c.above_diagonal > 0)
    out += fmt::format("  not causal: {} of them lie above the diagonal{}\n", human_count(c.above_diagonal),
                       layouts.model.empty() ? ", which a causal model leaves out" : "");
  else if (layouts.model.empty() || layouts.causal)
    out += "  causal, block by block: no block lies above the diagonal\n";
  else out += "  no block lies above the diagonal; queries in blocks on it see later keys, too\n";
  if (layouts.causal) out += "  causal, key by key: in blocks on the diagonal the model masks later keys\n";
  if (s.own_draws)
    out += fmt::format("  each of these layers draws its own columns: this is layer {}, --layer N shows another\n",
                       s.layers.front());
  return out;
}

std::vector<std::string> shades(tools::Glyphs glyphs) {
  if (glyphs == tools::Glyphs::ascii) return {".", "-", "+", "x", "#"};
  return {"\u00B7", "\u2591", "\u2592", "\u2593", "\u2588"};
}

// A square of characters. A cell is two characters wide, so that it is about as high as it is wide.
std::string square_of(const plan::BlockLayout& b, std::int64_t head, int columns, tools::Glyphs glyphs) {
  const auto levels = shades(glyphs);
  const auto label = static_cast<int>(fmt::format("{}", b.n).size());
  const auto cells = cells_of(b, head, std::clamp<std::int64_t>((columns - label - 3) / 2, 4, most_cells));
  std::string out;
  for (std::int64_t i = 0; i < cells.side; ++i) {
    out += fmt::format("  {:>{}} ", i * cells.each, label);
    for (std::int64_t j = 0; j < cells.side; ++j) {
      const double share = cells.at(i, j);
      const auto level = share <= 0 ? 0 : share >= 1 ? 4 : 1 + std::min(2, static_cast<int>(3 * share));
      for (int k = 0; k < 2; ++k) out += levels[static_cast<std::size_t>(level)];
    }
    out += "\n";
  }
  if (cells.each > 1)
    out += fmt::format("  a sign is {0} x {0} blocks: {1} none, {2} {3} {4} a part, {5} all of them are computed\n",
                       cells.each, levels[0], levels[1], levels[2], levels[3], levels[4]);
  return out;
}

tools::SvgPanel panel_of_layout(const ShownLayout& s, std::int64_t head, const std::string& title) {
  const auto cells = cells_of(s.blocks, head, most_cells_in_svg);
  tools::SvgPanel p;
  p.title = title;
  p.x.label = "block of keys", p.y.label = "block of queries";
  const auto last = static_cast<double>(cells.side - 1);
  const auto blocks_text = [&](const char* one, std::int64_t begin, std::int64_t end) {
    end = std::min(end * cells.each, s.blocks.n), begin *= cells.each;
    return end == begin + 1 ? fmt::format("{} {}", one, begin) : fmt::format("{}s {} to {}", one, begin, end - 1);
  };
  for (std::int64_t i = 0; i < cells.side; ++i) {
    p.y.names.push_back(fmt::format("{}", i * cells.each));
    for (std::int64_t j = 0; j < cells.side;) {
      auto end = j + 1;
      while (end < cells.side && cells.at(i, end) == cells.at(i, j)) ++end;
      if (const double share = cells.at(i, j); share > 0) {
        tools::SvgBar bar{static_cast<double>(j * cells.each),
                          static_cast<double>(std::min(end * cells.each, s.blocks.n)),
                          last - static_cast<double>(i),
                          1,
                          0,
                          "",
                          fmt::format("{}, {}{}", blocks_text("row", i, i + 1), blocks_text("column", j, end),
                                      share < 1 ? fmt::format(": {}", percent(share)) : "")};
        bar.opacity = 0.1 + 0.75 * share;
        p.bars.push_back(std::move(bar));
      }
      j = end;
    }
  }
  // The diagonal, which makes the drawn range the whole square.
  tools::SvgCurve diagonal;
  diagonal.points = {{0, last + 0.5},
                     {static_cast<double>(s.blocks.n),
                      last + 0.5 - static_cast<double>(s.blocks.n) / static_cast<double>(cells.each)}};
  diagonal.color = 7, diagonal.dashed = true;
  p.curves.push_back(std::move(diagonal));
  return p;
}

}  // namespace

std::string layouts_text(const Layouts& layouts, int columns, tools::Glyphs glyphs) {
  const auto first =
      std::find_if(layouts.shown.begin(), layouts.shown.end(), [](const auto& s) { return s.blocks.n > 0; });
  auto out = fmt::format("attention of {}, {} tokens", base::one_line(layouts.of), human_count(layouts.sequence));
  if (first == layouts.shown.end()) return out + "\n\nevery key of its document is computed: no layer has blocks\n";
  out += fmt::format(": {0} x {0} blocks of {1}\n", first->blocks.n, first->blocks.block);
  if (!layouts.dropped.empty()) out += layouts.dropped + "\n";
  for (const auto& s : layouts.shown) {
    out += fmt::format("\n{}\n", title_of(s));
    if (s.blocks.n == 0) {
      out += "  every block is computed\n";
      continue;
    }
    const auto c = counts_of(layouts, s.blocks);
    out += numbers_of_layout(layouts, s, c);
    const auto head = s.blocks.heads > 1 ? std::max<std::int64_t>(0, layouts.head) : 0;
    if (c.heads_differ) out += fmt::format("  head {} of {}; --head H shows another\n", head, s.blocks.heads);
    out += square_of(s.blocks, head, columns, glyphs);
  }
  return out;
}

std::string layouts_drawing(const Layouts& layouts) {
  std::vector<tools::SvgPanel> panels;
  std::size_t left_out = 0;
  for (const auto& s : layouts.shown) {
    if (s.blocks.n == 0) continue;
    const auto c = counts_of(layouts, s.blocks);
    const auto what =
        fmt::format("{}: {}", title_of(s), percent(static_cast<double>(c.blocks) / static_cast<double>(c.of)));
    const bool all_heads = c.heads_differ && layouts.head < 0;
    const auto begin = all_heads || s.blocks.heads == 1 ? 0 : std::max<std::int64_t>(0, layouts.head);
    for (auto h = begin; h < (all_heads ? s.blocks.heads : begin + 1); ++h) {
      if (panels.size() == most_squares) ++left_out;
      else panels.push_back(panel_of_layout(s, h, c.heads_differ ? fmt::format("head {}, {}", h, what) : what));
    }
  }
  return tools::svg_drawing(panels,
                            fmt::format("{} - {} tokens{}", layouts.of, human_count(layouts.sequence),
                                        left_out > 0 ? fmt::format("; {} heads more are not drawn", left_out) : ""),
                            {panels.size() > 1 ? 2 : 1, 432, 418});
}

}  // namespace trainyard::inspect
