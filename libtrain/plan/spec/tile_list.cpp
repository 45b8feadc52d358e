// Converts blocks of 16 to 128 into tiles of 64 with parts of 16.
#include "libtrain/plan/spec/tile_list.h"

#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr std::int64_t parts_of_tile = attention_tile / attention_part;

}  // namespace

TileList tiles_of(const BlockLayout& layout) {
  const auto parts = layout.block / attention_part;  // of a block, in each direction
  TileList out;
  out.heads = layout.heads;
  out.tiles = (layout.n * parts + parts_of_tile - 1) / parts_of_tile;
  out.begin.push_back(0);
  std::vector<std::uint16_t> bits(base::size(out.tiles));
  std::vector<std::int32_t> touched;
  for (std::int64_t h = 0; h < layout.heads; ++h)
    for (std::int64_t t = 0; t < out.tiles; ++t) {
      touched.clear();
      for (std::int64_t r = 0; r < parts_of_tile; ++r) {
        const auto row = (t * parts_of_tile + r) / parts;
        if (row >= layout.n) break;
        for (const auto column : layout.row(h, row))
          for (std::int64_t c = column * parts; c < (column + 1) * parts; ++c) {
            auto& tile = base::at(bits, c / parts_of_tile);
            if (tile == 0) touched.push_back(static_cast<std::int32_t>(c / parts_of_tile));
            tile = static_cast<std::uint16_t>(tile | 1u << (parts_of_tile * r + c % parts_of_tile));
          }
      }
      std::sort(touched.begin(), touched.end());
      for (const auto other : touched) {
        auto& tile = base::at(bits, other);
        out.other.push_back(other), out.parts.push_back(tile);
        tile = 0;
      }
      out.begin.push_back(static_cast<std::int32_t>(out.other.size()));
    }
  return out;
}

TileList by_keys(const TileList& list) {
  TileList out;
  out.tiles = list.tiles, out.heads = list.heads;
  out.other.resize(list.other.size()), out.parts.resize(list.parts.size());
  out.begin.assign(base::size(list.heads * list.tiles + 1), 0);
  for (std::int64_t h = 0; h < list.heads; ++h) {
    const auto at = [&](std::int64_t tile) { return base::size(h * list.tiles + tile); };
    const auto first = base::size(list.begin[at(0)]), end = base::size(list.begin[at(list.tiles)]);
    for (auto n = first; n < end; ++n) ++out.begin[at(list.other[n]) + 1];
    for (std::int64_t t = 0; t < list.tiles; ++t) out.begin[at(t) + 1] += out.begin[at(t)];
    std::vector<std::int32_t> next(out.begin.begin() + static_cast<std::ptrdiff_t>(at(0)),
                                   out.begin.begin() + static_cast<std::ptrdiff_t>(at(list.tiles)));
    for (std::int64_t t = 0; t < list.tiles; ++t)
      for (auto n = base::size(list.begin[at(t)]); n < base::size(list.begin[at(t) + 1]); ++n) {
        const auto place = base::size(base::at(next, list.other[n])++);
        out.other[place] = static_cast<std::int32_t>(t), out.parts[place] = list.parts[n];
      }
  }
  return out;
}

}  // namespace trainyard::plan
