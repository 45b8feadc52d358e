// Cases of attention: which parts of 16 x 16 pairs exist, the tile lists of these parts, documents and padding, and
// keys of another sequence.
#pragma once

#include "kernels/attention/attention.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

namespace trainyard::test {

// Two sequences of T tokens, with as many keys or `keys` others.
struct AttentionCase {
  std::int64_t T = 1, heads = 1, kv = 1, d = 8;
  bool causal = true;
  double dropout = 0;
  std::int64_t list_heads = 0, first_head = 0;  // 0: no lists
  std::int64_t beyond = 0;                      // parts in lists beyond the sequence
  double share = 0.5;                           // the share of parts that exist
  bool padded = false, documents = false;
  std::uint64_t seed = 1;
  std::int64_t window = 0;  // tokens; 0: none
  double softcap = 0;       // 0: none
  std::int64_t keys = 0;    // 0: as many as tokens
  bool biased = false;      // whether scores have a bias of positions

  std::int64_t key_count() const { return keys > 0 ? keys : T; }
  std::int64_t distances() const { return T + key_count() - 1; }
};

// Which parts of 16 x 16 pairs exist, for `heads` heads of a model, or one set for all heads.
struct AttentionParts {
  static constexpr std::int64_t part = 16, tile = 64;
  std::int64_t heads, n;
  std::vector<char> there;
  AttentionParts(std::int64_t heads, std::int64_t n)
      : heads(heads), n(n), there(static_cast<std::size_t>(heads * n * n)) {}
  // Draws the parts of a case at random.
  explicit AttentionParts(const AttentionCase& c)
      : AttentionParts(std::max<std::int64_t>(c.list_heads, 1), (c.T + part - 1) / part + c.beyond) {
    std::mt19937_64 random(c.seed);
    for (auto& x : there) x = static_cast<double>(random() >> 11) * 0x1p-53 < c.share;
  }
  char& at(std::int64_t h, std::int64_t i, std::int64_t j) {
    return there[static_cast<std::size_t>((h * n + i) * n + j)];
  }
  bool has(std::int64_t h, std::int64_t i, std::int64_t j) const {
    return there[static_cast<std::size_t>(((heads == 1 ? 0 : h) * n + i) * n + j)] != 0;
  }
};

// A kernel's lists by queries and by keys, made one pair of tiles after another.
struct AttentionLists {
  struct One {
    std::vector<std::int32_t> begin{0}, other;
    std::vector<std::uint16_t> parts;
    kernels::TileView view(std::int64_t tiles, std::int64_t heads) const {
      return {begin.data(), other.data(), parts.data(), tiles, heads};
    }
  };
  One by_queries, by_keys;
  std::int64_t tiles, heads;
  explicit AttentionLists(const AttentionParts& p) : tiles((p.n + 3) / 4), heads(p.heads) {
    for (const bool keys : {false, true}) {
      auto& list = keys ? by_keys : by_queries;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t row = 0; row < tiles; ++row) {
          for (std::int64_t other = 0; other < tiles; ++other) {
            unsigned bits = 0;
            for (int r = 0; r < 4; ++r)
              for (int c = 0; c < 4; ++c) {
                const auto i = 4 * (keys ? other : row) + r, j = 4 * (keys ? row : other) + c;
                if (i < p.n && j < p.n && p.has(h, i, j)) bits |= 1u << (4 * r + c);
              }
            if (bits == 0) continue;
            list.other.push_back(static_cast<std::int32_t>(other));
            list.parts.push_back(static_cast<std::uint16_t>(bits));
          }
          list.begin.push_back(static_cast<std::int32_t>(list.other.size()));
        }
    }
  }
};

// Where the keys of each query begin and end.
struct AttentionSpans {
  std::vector<std::int32_t> start, end;
  bool ends;  // anywhere but at the end of the sequence
  explicit AttentionSpans(const AttentionCase& c)
      : start(static_cast<std::size_t>(2 * c.T), 0), end(start.size(), static_cast<std::int32_t>(c.key_count())),
        ends(c.padded || (c.documents && !c.causal)) {
    if (c.keys > 0) {
      if (c.documents)  // three pairs of documents in the first sequence
        for (std::int64_t i = 0; i < c.T; ++i) {
          const auto at = static_cast<std::size_t>(i), of = static_cast<std::size_t>(i * 3 / c.T);
          const std::int64_t borders[] = {0, c.keys / 4, c.keys / 2, c.keys};
          start[at] = static_cast<std::int32_t>(borders[of]), end[at] = static_cast<std::int32_t>(borders[of + 1]);
        }
      if (c.padded)  // the second sequence has few keys, and its last queries see none
        for (std::int64_t i = 0; i < c.T; ++i) {
          const auto at = static_cast<std::size_t>(c.T + i);
          end[at] = static_cast<std::int32_t>((c.keys + 1) / 2);
          if (i > c.T / 2) start[at] = end[at];
        }
      return;
    }
    const auto cut = c.T / 3;  // a document ends here in the first sequence
    if (c.documents)
      for (std::int64_t i = 0; i < c.T; ++i) {
        const auto at = static_cast<std::size_t>(i);
        start[at] = static_cast<std::int32_t>(i < cut ? 0 : cut);
        if (!c.causal) end[at] = static_cast<std::int32_t>(i < cut ? cut : c.T);
      }
    if (c.padded)  // the second sequence is short
      for (std::int64_t i = 0; i < c.T; ++i)
        end[static_cast<std::size_t>(c.T + i)] = static_cast<std::int32_t>(c.T / 2);
  }
};

// Lengths of documents to try in T tokens; 0: one document. If there are several and `some`, one of them is left out:
// which one depends on `turn`.
inline std::vector<int> document_lengths(std::int64_t T, bool some, std::int64_t turn) {
  std::vector<int> lengths = T < 30 ? std::vector{0} : T < 150 ? std::vector{0, 30} : std::vector{0, 30, 150};
  if (some && lengths.size() > 1) lengths.erase(lengths.begin() + turn % std::ssize(lengths));
  return lengths;
}

}  // namespace trainyard::test
