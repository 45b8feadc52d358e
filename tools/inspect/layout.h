// The layouts of a model's attention: which blocks of queries and keys its layers compute, counted and drawn.
#pragma once

#include "libtrain/plan/block_layout.h"
#include "tools/common/terminal.h"
#include "tools/inspect/report.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

// What to look at: -1 is all that differ; sequence 0 is a plan's own, else the longest that the model's layouts can
// have.
struct LayoutOptions {
  std::int64_t layer = -1, head = -1, sequence = 0;
};

// What some layers compute alike.
struct ShownLayout {
  std::string name;                  // "sliding", "dense"
  std::vector<std::int64_t> layers;  // that have it; none: a file by itself
  bool own_draws = false;            // each of these layers draws columns of its own: `blocks` are the first's
  plan::BlockLayout blocks;          // of a dense one nothing
};

struct LayoutCounts {
  // of: those that dense attention would compute: of a causal model, or where nothing lies above the diagonal of a
  // file, the diagonal and what is below it, else the square.
  std::int64_t blocks = 0, of = 0;
  std::int64_t shortest = 0, longest = 0, empty_rows = 0, above_diagonal = 0;
  bool heads_differ = false;
};

struct Layouts {
  std::string of;  // the path
  std::string model, dropped;
  std::int64_t sequence = 0, head = -1;
  bool causal = false;  // the model is
  std::vector<ShownLayout> shown;
};
LayoutCounts counts_of(const Layouts& layouts, const plan::BlockLayout& blocks);

// Of a model's description, a plan, a checkpoint, a run, or the HDF5 file of a layout. UsageError for layers, heads and
// sequences that there are not, InputError for what cannot be read.
Layouts read_layouts(const std::string& path, const LayoutOptions& options);

// Of each layout its numbers, and a square of signs that fits so many columns: a sign is a block, or so many by so many
// of them, and says the share of these that is there.
std::string layouts_text(const Layouts& layouts, int columns, tools::Glyphs glyphs);
std::string layouts_drawing(const Layouts& layouts);  // at most 12 squares, of heads that differ one each
nlohmann::json layouts_json(const Layouts& layouts);

// Of what read_layouts reads. Its kind is "layout".
Report layout_report(const std::string& path, const LayoutOptions& options);

}  // namespace trainyard::inspect
