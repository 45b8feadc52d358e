// The block layouts of a model's attention: which blocks of queries and keys its layers compute, counted and drawn.
#pragma once

#include "libtrain/plan/spec/block_layout.h"
#include "tools/common/terminal.h"
#include "tools/inspect/report.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

// What to show. Layer or head -1 means all that differ. Sequence 0 means a plan's own length, else the longest that the
// model's layouts can have.
struct LayoutOptions {
  std::int64_t layer = -1, head = -1, sequence = 0;
};

// A layout that one or more layers share.
struct ShownLayout {
  std::string name;                  // such as "sliding" or "dense"
  std::vector<std::int64_t> layers;  // layers that have it; empty for a layout file
  bool own_draws = false;    // each of these layers draws its own random columns; `blocks` are the first layer's
  plan::BlockLayout blocks;  // empty for dense attention
};

struct LayoutCounts {
  // of: the blocks that dense attention would compute. For a causal model, or a file without blocks above the diagonal,
  // that is the diagonal and the part below; else the whole square.
  std::int64_t blocks = 0, of = 0;
  std::int64_t shortest = 0, longest = 0, empty_rows = 0, above_diagonal = 0;
  bool heads_differ = false;
};

struct Layouts {
  std::string of;  // the path that was read
  std::string model, dropped;
  std::int64_t sequence = 0, head = -1;
  bool causal = false;  // whether the model is causal
  std::vector<ShownLayout> shown;
};
LayoutCounts counts_of(const Layouts& layouts, const plan::BlockLayout& blocks);

// Reads layouts from a model's description, a plan, a checkpoint, a run, or the HDF5 file of a layout. UsageError for a
// layer, head or sequence that does not exist. InputError for a file that cannot be read.
Layouts read_layouts(const std::string& path, const LayoutOptions& options);

// For each layout its numbers, and a square of signs that fits into `columns`. A sign is one block, or a square of
// several blocks, and shows the share of them that is computed.
std::string layouts_text(const Layouts& layouts, int columns, tools::Glyphs glyphs);
std::string layouts_drawing(const Layouts& layouts);  // at most 12 squares; heads that differ get one each
nlohmann::json layouts_json(const Layouts& layouts);

// The report on what read_layouts reads; its kind is "layout".
Report layout_report(const std::string& path, const LayoutOptions& options);

}  // namespace trainyard::inspect
