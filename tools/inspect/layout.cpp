// Reads block layouts, and computes their numbers.
#include "tools/inspect/layout.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/block_ranges.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace trainyard::inspect {

namespace fs = std::filesystem;

namespace {

struct Source {
  plan::ModelConfig model;
  std::int64_t sequence = 0;
};

Source source_of(const std::string& path) {
  const fs::path p(path);
  if (!base::exists(path)) throw base::InputError(fmt::format("{} does not exist", path), "check the path");
  if (base::is_folder(path) || p.filename() == "manifest.json") {
    const auto folder = !base::is_folder(path) ? base::parent_of(path) : path;
    const auto model = checkpoint::looking_again({folder}, [&] {
      const auto found = checkpoint::named_checkpoint(folder);
      return checkpoint::reading(
          {found}, [&] { return checkpoint::read_state(found).model; }, checkpoint::Seen::listed);
    });
    return {model, plan::longest_sequence(model)};
  }
  if (p.extension() == ".toml") {
    const auto model = described_model(path);
    return {model, plan::longest_sequence(model)};
  }
  const auto text = base::read_file(path, base::largest_description);
  if (const auto first = text.find_first_not_of(" \t\r\n"); first == std::string::npos || text[first] != '{')
    throw base::InputError(fmt::format("--layout is of a model, and {} has none", path),
                           "give a model.toml, a plan, a run or checkpoint, or the HDF5 file of a layout");
  const auto plan = plan::plan_from_json(text, path);
  return {plan.model, plan.sequence};
}

void require_below(std::int64_t asked, std::int64_t count, const char* what) {
  if (asked >= count)
    throw base::UsageError(
        fmt::format("--{} {}: there {} {}", what, asked, count == 1 ? "is" : "are", base::counted(count, what)),
        fmt::format("count from 0{}", count > 1 ? fmt::format(" to {}", count - 1) : ""));
}

plan::BlockLayout blocks_of_file(const base::BlockMap& map) {
  plan::BlockLayout out;
  out.block = map.block, out.n = map.n, out.heads = map.heads;
  out.row_begin.push_back(0);
  for (std::int64_t row = 0; row < map.heads * map.n; ++row) {
    for (std::int64_t j = 0; j < map.n; ++j)
      if (map.present[static_cast<std::size_t>(row * map.n + j)] != 0)
        out.columns.push_back(static_cast<std::int32_t>(j));
    out.row_begin.push_back(std::ssize(out.columns));
  }
  return out;
}

Layouts layouts_of_file(const std::string& path, const LayoutOptions& options) {
  if (options.layer >= 0 || options.sequence > 0)
    throw base::UsageError(fmt::format("{} is a layout by itself: it has neither layers nor another sequence", path),
                           "leave --layer and --sequence out, or give a model that names the file");
  Layouts out;
  out.of = path;
  out.shown.push_back({"file", {}, false, blocks_of_file(io::read_layout_file(path))});
  const auto& blocks = out.shown.front().blocks;
  if (options.head >= 0) require_below(options.head, blocks.heads, "head");
  out.sequence = blocks.n * blocks.block;
  return out;
}

Layouts layouts_of_model(const std::string& path, const LayoutOptions& options) {
  const auto source = source_of(path);
  const auto& m = source.model;
  Layouts out;
  out.of = path, out.model = m.name, out.causal = m.attention.causal;
  out.dropped = plan::dropped_text(m);
  out.sequence = options.sequence > 0 ? options.sequence : source.sequence;
  if (out.sequence > m.context)
    throw base::UsageError(fmt::format("--sequence {} is longer than the model's context {}", out.sequence, m.context),
                           fmt::format("--sequence {} at most", m.context));
  if (options.layer >= 0) require_below(options.layer, m.layers, "layer");
  if (options.head >= 0) require_below(options.head, m.heads, "head");
  std::map<std::string, std::size_t> place;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    if (options.layer >= 0 && layer != options.layer) continue;
    const auto& all = m.attention.layout;
    const auto& name = all.at(static_cast<std::size_t>(layer) % all.size());
    const auto [found, is_new] = place.try_emplace(name, out.shown.size());
    if (is_new) out.shown.push_back({name, {}, false, {}});
    out.shown[found->second].layers.push_back(layer);
  }
  const auto lists = plan::list_of_layer(m);
  for (auto& shown : out.shown) {
    const auto first = shown.layers.front();
    const auto seen = plan::layer_model(m, first);
    if (!plan::is_sparse(seen)) continue;
    shown.own_draws = shown.layers.size() > 1 && lists.at(shown.layers[1]) == shown.layers[1];
    shown.blocks = plan::block_layout(seen, first, out.sequence);
  }
  return out;
}

// The rows in a model's notation: "0 3:7".
std::vector<std::string> rows_of(const plan::BlockLayout& blocks, std::int64_t head) {
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < blocks.n; ++i) {
    plan::BlockRanges ranges;
    for (const auto j : blocks.row(head, i)) {
      if (!ranges.empty() && ranges.back().end == j) ++ranges.back().end;
      else ranges.push_back({j, std::int64_t{j} + 1});
    }
    out.push_back(plan::file_text({{ranges}}));
  }
  return out;
}

bool is_file_of_layout(const std::string& path) {
  std::error_code error;
  return fs::path(path).extension() == ".h5" && fs::is_regular_file(path, error);
}

}  // namespace

LayoutCounts counts_of(const Layouts& layouts, const plan::BlockLayout& b) {
  LayoutCounts c;
  c.blocks = std::ssize(b.columns);
  c.shortest = b.n;
  for (std::int64_t h = 0; h < b.heads; ++h)
    for (std::int64_t i = 0; i < b.n; ++i) {
      const auto row = b.row(h, i), first = b.row(0, i);
      c.shortest = std::min(c.shortest, std::ssize(row) + 0L);
      c.longest = std::max(c.longest, std::ssize(row) + 0L);
      c.empty_rows += static_cast<std::int64_t>(row.empty());
      c.above_diagonal += row.end() - std::upper_bound(row.begin(), row.end(), i);
      c.heads_differ |= !std::equal(row.begin(), row.end(), first.begin(), first.end());
    }
  const bool below = layouts.model.empty() ? c.above_diagonal == 0 : layouts.causal;
  c.of = b.heads * (below ? b.n * (b.n + 1) / 2 : b.n * b.n);
  return c;
}

nlohmann::json layouts_json(const Layouts& layouts) {
  auto list = nlohmann::json::array();
  for (const auto& s : layouts.shown) {
    nlohmann::json j{{"layout", s.name}, {"layers", s.layers}};
    if (s.blocks.n > 0) {
      const auto c = counts_of(layouts, s.blocks);
      j.update({{"block", s.blocks.block},
                {"side", s.blocks.n},
                {"heads", s.blocks.heads},
                {"blocks", c.blocks},
                {"density", static_cast<double>(c.blocks) / static_cast<double>(c.of)},
                {"shortest_row", c.shortest},
                {"longest_row", c.longest},
                {"empty_rows", c.empty_rows},
                {"above_diagonal", c.above_diagonal},
                {"layers_draw_their_own", s.own_draws}});
      auto& heads = j["rows"] = nlohmann::json::array();
      for (std::int64_t h = 0; h < s.blocks.heads; ++h)
        if (layouts.head < 0 || layouts.head == h || s.blocks.heads == 1) heads.push_back(rows_of(s.blocks, h));
    } else {
      j["density"] = 1;
    }
    list.push_back(std::move(j));
  }
  nlohmann::json out{{"sequence", layouts.sequence}, {"layouts", list}};
  if (!layouts.model.empty()) out["model"] = layouts.model, out["causal"] = layouts.causal;
  return out;
}

Layouts read_layouts(const std::string& path, const LayoutOptions& options) {
  auto layouts = is_file_of_layout(path) ? layouts_of_file(path, options) : layouts_of_model(path, options);
  layouts.head = options.head;
  return layouts;
}

Report layout_report(const std::string& path, const LayoutOptions& options) {
  const auto layouts = read_layouts(path, options);
  Report report;
  report.json = layouts_json(layouts);
  report.json["kind"] = "layout", report.json["path"] = path;
  report.text = layouts_text(layouts, tools::terminal_columns(), tools::glyphs_of_terminal());
  if (std::any_of(layouts.shown.begin(), layouts.shown.end(), [](const auto& s) { return s.blocks.n > 0; }))
    report.drawing = [layouts] { return layouts_drawing(layouts); };
  return report;
}

}  // namespace trainyard::inspect
