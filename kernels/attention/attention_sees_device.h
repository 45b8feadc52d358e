// Visibility on a GPU: the keys that each query may see by causality, window, document and ends, and walks over the
// tiles of a list. For attention_*cuda.cu.
#pragma once

#include "kernels/attention/attention_args.h"
#include "kernels/gpu_device.h"
#include "libtrain/plan/spec/attention_tile.h"

namespace trainyard::kernels {
namespace {

// The visibility that a kernel is compiled for. earlier: every earlier key of a query's document and window, tile after
// tile. any: whatever the arguments say.
enum class Sees { earlier, any };
inline Sees sees_of(const AttentionArgs& a) {
  const bool lists = a.visibility.by_queries.begin != nullptr || a.visibility.by_keys.begin != nullptr;
  return a.visibility.causal && a.key_end == nullptr && !lists ? Sees::earlier : Sees::any;
}

constexpr int list_tile = static_cast<int>(plan::attention_tile), list_part = static_cast<int>(plan::attention_part);
// Parts of a tile: all parts, a row of parts of the first queries, a column of parts of the first keys.
constexpr unsigned every_part = plan::whole_tile, query_row = 0xf, key_column = 0x1111;

// The bit of query part r and key part c in the parts of a tile.
TRAINYARD_ANYWHERE constexpr int part_of(int r, int c) { return list_tile / list_part * r + c; }
// Whether the parts contain query i and key j, positions in a sequence.
__device__ __forceinline__ bool has_pair(unsigned parts, std::int64_t i, std::int64_t j) {
  return (parts >> part_of(static_cast<int>(i % list_tile / list_part), static_cast<int>(j % list_tile / list_part)) &
          1u) != 0;
}

// Keys [lo, hi), as positions in a sequence; empty if lo >= hi.
struct Keys {
  int lo, hi;
};
// The first key of query i's document and window. i: a query of the sequence at row0.
__device__ __forceinline__ int begin_of(const AttentionArgs& a, std::int64_t row0, int i) {
  const int document = a.document_start[row0 + i], window = i - static_cast<int>(a.reach);
  return window > document ? window : document;
}

// The keys that query i of the sequence at row0 may see, lists aside. A query past the sequence's end counts as its
// last query. Neither lo nor hi decreases within a sequence. So of several queries, the first sees farthest back, and
// the last sees farthest ahead.
__device__ __forceinline__ Keys keys_of(const AttentionArgs& a, std::int64_t row0, int i) {
  const int length = static_cast<int>(a.sequence), query = i < length ? i : length - 1;
  const int ahead = query + 1 + (a.visibility.causal ? 0 : static_cast<int>(a.reach));
  int end = ahead < static_cast<int>(a.keys) ? ahead : static_cast<int>(a.keys);
  if (a.key_end != nullptr) {
    const int limit = a.key_end[row0 + query];
    end = limit < end ? limit : end;
  }
  return {begin_of(a, row0, query), end};
}

// The bias of positions of query i and key j of head h; 0 without one. F: the type of statistics. Queries and keys past
// a sequence's end count as its last.
template <class F>
__device__ __forceinline__ F bias_of(const AttentionArgs& a, std::int64_t h, std::int64_t i, std::int64_t j) {
  if (a.bias == nullptr) return F(0);
  const auto query = i < a.sequence ? i : a.sequence - 1, key = j < a.keys ? j : a.keys - 1;
  return static_cast<const F*>(a.bias)[h * (a.sequence + a.keys - 1) + key - query + a.sequence - 1];
}

// The first n of [from, to) for which far(n) holds, or `to`. If far(n) holds, it holds for all later n.
template <class Far> __device__ int first_far(int from, int to, const Far& far) {
  while (from < to) {
    const int middle = (from + to) / 2;
    if (far(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

struct TileStep {
  int tile;  // -1: no tile is left
  unsigned parts;
};

// Entries [n, end) of a list, or tiles [n, end) without a list; both ascending.
struct TileWalk {
  int n, end;
  __device__ TileStep take(const TileView& list) {
    if (n >= end) return {-1, 0};
    const int at = n++;
    if (list.begin == nullptr) return {at, every_part};
    return {list.other[at], list.parts[at]};
  }
};

// The tiles in [first, end) that the list has for `tile` and head h of this rank.
__device__ TileWalk walk_of(const AttentionArgs& a, const TileView& list, std::int64_t h, int tile, int first,
                            int end) {
  if (list.begin == nullptr) return {first, end};
  const auto row = (list.heads == 1 ? 0 : (a.visibility.first_head + h) * list.tiles) + tile;
  TileWalk w{list.begin[row], list.begin[row + 1]};
  // Most rows of lists have no tile out of reach, and need no search.
  if (w.n < w.end && list.other[w.n] < first)
    w.n = first_far(w.n, w.end, [&](int n) { return list.other[n] >= first; });
  if (w.n < w.end && list.other[w.end - 1] >= end)
    w.end = first_far(w.n, w.end, [&](int n) { return list.other[n] >= end; });
  return w;
}

// The parts that a list has of a tile of queries and a tile of keys.
__device__ unsigned parts_at(const AttentionArgs& a, std::int64_t h, int queries, int keys) {
  const auto at = walk_of(a, a.visibility.by_queries, h, queries, keys, keys + 1).take(a.visibility.by_queries);
  return at.tile == keys ? at.parts : 0;
}

// The tiles of keys that any query of [i0, end) may see. With lists, these queries belong to one tile.
__device__ TileWalk walk_keys(const AttentionArgs& a, std::int64_t row0, std::int64_t h, int i0, int end) {
  const int lo = keys_of(a, row0, i0).lo, hi = keys_of(a, row0, end - 1).hi;
  return walk_of(a, a.visibility.by_queries, h, i0 / list_tile, lo / list_tile, (hi + list_tile - 1) / list_tile);
}

// Tiles [first, end) of queries, of which some query may see a key of [j0, j0 + keys), lists aside.
struct TileRange {
  int first, end;
};
__device__ TileRange queries_of(const AttentionArgs& a, std::int64_t row0, int j0, int keys) {
  const int tiles = (static_cast<int>(a.sequence) + list_tile - 1) / list_tile;
  const auto reach = [&](int n) { return keys_of(a, row0, n * list_tile + list_tile - 1).hi > j0; };
  const auto beyond = [&](int n) { return keys_of(a, row0, n * list_tile).lo >= j0 + keys; };
  int first = a.visibility.causal ? j0 / list_tile : 0, end = tiles;
  if (!reach(first)) first = first_far(first, tiles, reach);
  if (beyond(tiles - 1)) end = first_far(first, tiles, beyond);
  return {first, end};
}

}  // namespace
}  // namespace trainyard::kernels
