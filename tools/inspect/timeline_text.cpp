// Draws a timeline with characters.
#include "tools/inspect/timeline.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "tools/common/table.h"
#include "tools/inspect/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace trainyard::inspect {

namespace {

using Block = TimelineBlock;
constexpr std::size_t most_rows = 32;
constexpr double clock_step = 2e-9;  // a trace has a resolution of nanoseconds

// The letters usual in the literature; virtual stages after the first have small letters.
char letter_of(const Block& b) {
  char letter = 'o';
  switch (b.kind) {
    case Block::Kind::forward: letter = 'F'; break;
    case Block::Kind::backward:
    case Block::Kind::input_gradients: letter = 'B'; break;
    case Block::Kind::weight_gradients: letter = 'W'; break;
    case Block::Kind::other: return b.name == std::string_view("update") ? 'u' : 'o';
  }
  return b.chunk > 0 ? static_cast<char>(letter - 'A' + 'a') : letter;
}

char filling_of(Block::Kind kind) {
  switch (kind) {
    case Block::Kind::forward: return '-';
    case Block::Kind::backward:
    case Block::Kind::input_gradients: return '=';
    case Block::Kind::weight_gradients: return '~';
    case Block::Kind::other: return ' ';
  }
  return ' ';
}

bool is_pass(const Block& b) { return b.kind != Block::Kind::other; }

// The block shown in each column: the one with most of its time, or -1 if idle time is longer. A column with a pass is
// never shown as idle, because many passes are shorter than a column.
std::vector<int> columns_of_blocks(const std::vector<Block>& blocks, double seconds, int columns) {
  const auto n = static_cast<std::size_t>(columns);
  const double width = seconds / columns;
  std::vector<int> best(n, -1);
  std::vector<double> most(n, 0), covered(n, 0);
  std::vector<bool> passes(n, false);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& b = blocks[i];
    const auto at = [&](double t) { return std::clamp(static_cast<int>(t / width), 0, columns - 1); };
    for (int c = at(b.begin); c <= at(b.end); ++c) {
      const auto k = static_cast<std::size_t>(c);
      const double part = std::min(b.end, (c + 1) * width) - std::max(b.begin, c * width);
      if (part <= clock_step) continue;  // only the end of a neighbouring block
      covered[k] += part;
      if (is_pass(b)) passes[k] = true;
      if (part > most[k]) most[k] = part, best[k] = static_cast<int>(i);
    }
  }
  for (std::size_t k = 0; k < n; ++k)
    if (!passes[k] && most[k] < width - covered[k]) best[k] = -1;
  return best;
}

// Draws one row. Outside `within`, free time does not count as idle.
std::string line_of(const std::vector<Block>& blocks, const TimelineTimes& within, double seconds, int columns,
                    const std::string& idle) {
  const auto best = columns_of_blocks(blocks, seconds, columns);
  std::string out;
  for (std::size_t c = 0; c < best.size();) {
    auto end = c;
    while (end < best.size() && best[end] == best[c]) ++end;
    if (best[c] < 0) {
      for (; c < end; ++c) {
        const double middle = (static_cast<double>(c) + 0.5) * seconds / columns;
        out += middle < within.begin || middle > within.end ? " " : idle;
      }
      continue;
    }
    const auto& b = blocks[static_cast<std::size_t>(best[c])];
    const auto wide = end - c;
    std::string label(1, letter_of(b));
    if (const auto number = b.micro < 0 || b.kind == Block::Kind::other ? "" : fmt::format("{}", b.micro);
        label.size() + number.size() <= wide)
      label += number;
    out += label + std::string(wide - label.size(), b.kind == Block::Kind::other ? letter_of(b) : filling_of(b.kind));
    c = end;
  }
  return out;
}

std::string communication_of(const std::vector<TimelineTimes>& times, double seconds, int columns) {
  std::vector<Block> blocks;
  for (const auto& t : times) blocks.push_back({Block::Kind::other, "", -1, -1, t.begin, t.end});
  std::string out;
  for (const int b : columns_of_blocks(blocks, seconds, columns)) out += b < 0 ? ' ' : '+';
  return out;
}

std::string numbers(const Timeline& t, std::size_t rows) {
  std::vector<std::vector<std::string>> lines;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto& row = t.measured[r];
    lines.push_back({row.name, base::duration_text(row.passes), base::duration_text(row.other),
                     base::duration_text(row.waiting), base::duration_text(row.communicating)});
  }
  return tools::table({"", ">forward, backward", ">other", ">waiting", ">communicating"}, lines);
}

// The meaning of the letters that are drawn, one line each.
std::string legend(const Timeline& t, std::size_t rows, const std::string& idle, bool communication) {
  std::set<char> drawn;
  for (const auto* of : {&t.measured, &t.ideal})
    for (std::size_t r = 0; r < std::min(rows, of->size()); ++r) {
      for (const auto& b : (*of)[r].blocks) drawn.insert(letter_of(b));
      if (communication && !(*of)[r].communication.empty()) drawn.insert('+');
    }
  const auto any_of = [&](const char* letters) {
    return std::any_of(drawn.begin(), drawn.end(),
                       [&](char c) { return std::string_view(letters).find(c) != std::string_view::npos; });
  };
  const bool apart = any_of("Ww");
  std::string out;
  const auto line = [&](const std::string& sign, const std::string& meaning) {
    out += fmt::format("{:<8}{}{:{}}{}\n", out.empty() ? "legend" : "", sign, "", 6 - (sign == idle ? 1 : sign.size()),
                       meaning);
  };
  if (any_of("Ff")) line("F0--", "forward of micro-batch 0");
  if (any_of("Bb")) line("B0==", fmt::format("backward of micro-batch 0{}", apart ? ", without weight gradients" : ""));
  if (apart) line("W0~~", "weight gradients of micro-batch 0");
  if (any_of("fbw")) line(apart ? "f b w" : "f b", "the same of a later virtual stage");
  if (any_of("u")) line("u", "update of the weights");
  if (any_of("o")) line("o", "other work, as loading and reducing");
  line(idle, "idle or waiting");
  if (any_of("+")) line("+", "communicating, in the line below a rank");
  return out;
}

}  // namespace

std::string timeline_text(const Timeline& t, const Trace& trace, int columns, tools::Glyphs glyphs) {
  const bool unicode = glyphs == tools::Glyphs::unicode;
  const std::string idle = unicode ? "\u00B7" : ".", edge = unicode ? "\u2502" : "|";
  const auto rows = std::min(most_rows, t.measured.size());
  const auto label = t.measured[rows - 1].name.size() + 2;
  const int wide = std::max(20, columns - static_cast<int>(label) - 1);
  const double seconds = std::max({1e-9, t.seconds, t.passes_begin + t.ideal_seconds});
  const auto line = [&](const std::string& name, const std::string& cells) {
    return fmt::format("{:<{}}{}{}\n", name, label, edge, cells.substr(0, cells.find_last_not_of(' ') + 1));
  };
  auto out = fmt::format("step {}: {}, measured\n", t.step, base::duration_text(t.seconds));
  if (t.rounds.size() > 1) {
    std::string marks(static_cast<std::size_t>(wide), ' ');
    std::size_t free = 0;
    for (std::size_t k = 0; k < t.rounds.size(); ++k) {
      const auto at = static_cast<std::size_t>(std::clamp(t.rounds[k] / seconds, 0.0, 1.0) * wide);
      const auto mark = fmt::format("{}", k);
      if (at < free || at + mark.size() > marks.size()) continue;
      marks.replace(at, mark.size(), mark);
      free = at + mark.size() + 1;
    }
    out += line("round", marks);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    out += line(t.measured[r].name, line_of(t.measured[r].blocks, {0, t.seconds}, seconds, wide, idle));
    if (trace.stages > 1 || t.measured[r].communication.empty()) continue;
    out += line("", communication_of(t.measured[r].communication, seconds, wide));
  }
  if (t.problem.empty()) {
    out +=
        fmt::format("\nideal: {}, the same schedule simulated, with mean times of each part and messages in no time\n",
                    base::duration_text(t.ideal_seconds));
    for (std::size_t r = 0; r < rows; ++r) {
      auto blocks = t.ideal[r].blocks;
      for (auto& b : blocks) b.begin += t.passes_begin, b.end += t.passes_begin;
      out += line(t.ideal[r].name,
                  line_of(blocks, {t.passes_begin, t.passes_begin + t.ideal_seconds}, seconds, wide, idle));
    }
  } else {
    out += fmt::format("\nno ideal: the step's schedule cannot be simulated ({})\n", base::one_line(t.problem));
  }
  if (rows < t.measured.size()) out += fmt::format("{} ranks more are not drawn\n", t.measured.size() - rows);
  out += '\n';
  out += legend(t, rows, idle, trace.stages == 1);
  out +=
      fmt::format("        a column is {}; a shorter pass takes a whole one\n\n", base::duration_text(seconds / wide));
  out += numbers(t, rows);
  out += fmt::format("\nidle from the first forward to the last backward: measured {} of {}, ideal {}\n",
                     percent(t.idle_fraction()), base::duration_text(t.passes_seconds),
                     t.problem.empty()
                         ? fmt::format("{} of {}", percent(t.ideal_idle_fraction), base::duration_text(t.ideal_seconds))
                         : "not known");
  if (trace.host_only)
    out +=
        "these are times on the host, which queues work for a GPU: a trace does not show when the GPU works or idles\n";
  return out;
}

}  // namespace trainyard::inspect
