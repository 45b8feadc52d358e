// BlockLayout: which blocks of attention's square of queries and keys are computed, by the rules of each layout.
#pragma once

#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::plan {

// n x n blocks, n = sequence / block rounded up. Rows of queries, columns of keys.
struct BlockLayout {
  std::int64_t block = 64, n = 0;
  std::int64_t heads = 1;               // of the model; 1: the same for all
  std::vector<std::int64_t> row_begin;  // [heads * n + 1], in `columns`
  std::vector<std::int32_t> columns;    // of each row of each head, ascending
  std::span<const std::int32_t> row(std::int64_t head, std::int64_t i) const {
    const auto r = static_cast<std::size_t>((heads == 1 ? 0 : head) * n + i);
    return std::span(columns).subspan(static_cast<std::size_t>(row_begin[r]),
                                      static_cast<std::size_t>(row_begin[r + 1] - row_begin[r]));
  }
  bool operator==(const BlockLayout&) const = default;
};

// What a layout has at most, in all heads: lists count in 32 bits and are made block by block. A layout of more, of a
// model that nobody has judged yet, ends behind the head that went beyond.
inline constexpr std::int64_t most_layout_columns = std::int64_t{1} << 24;

// Has the layer blocks at all, or does a query see every key of its document (that is not later)?
bool is_sparse(const ModelConfig& of_layer);

// Of layer `layer`, as it sees its model, for a sequence. In a causal one no column is above its row; the diagonal's
// blocks are there as the rule says, and the kernel masks their later keys. How many blocks there are does not depend
// on what is drawn.
BlockLayout block_layout(const ModelConfig& of_layer, std::int64_t layer, std::int64_t sequence);

// Blocks of all heads that have lists of their own; of these the share of what dense attention computes for as many
// heads: of the square, or of the diagonal and what is below it. From any thread; known ones are kept.
std::int64_t block_count(const ModelConfig& of_layer, std::int64_t sequence);
double density(const ModelConfig& of_layer, std::int64_t sequence);  // 1 where the layer is dense

}  // namespace trainyard::plan
