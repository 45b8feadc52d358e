// BlockLayout: which blocks of attention's square of queries and keys are computed, by the rules of each layout.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include "libtrain/base/index.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::plan {

// n x n blocks, where n = sequence / block rounded up. Rows are blocks of queries, columns are blocks of keys.
struct BlockLayout {
  std::int64_t block = 64, n = 0;
  std::int64_t heads = 1;  // heads with a layout of their own: all of the model's, or 1 if all heads share one
  std::vector<std::int64_t> row_begin;  // [heads * n + 1], indices into `columns`
  std::vector<std::int32_t> columns;    // the columns of each row of each head, ascending
  std::span<const std::int32_t> row(std::int64_t head, std::int64_t i) const {
    const auto r = base::size((heads == 1 ? 0 : head) * n + i);
    return std::span(columns).subspan(base::size(row_begin[r]), base::size(row_begin[r + 1] - row_begin[r]));
  }
  bool operator==(const BlockLayout&) const = default;
};

// The most columns that a layout may have in all heads: lists count in 32 bits and are made block by block. A model
// that was not checked yet may have more; its layout ends after the head that went beyond.
inline constexpr std::int64_t most_layout_columns = std::int64_t{1} << 24;

// Whether the layer has a sparse layout. If not, a query sees every key of its document (that is not later).
bool is_sparse(const ModelConfig& of_layer);

// The layout of layer number `layer`, for a sequence. `of_layer` is the model as the layer sees it. In a causal model
// no column is above its row. Blocks on the diagonal follow the layout's rule, and the kernel masks the later keys in
// them. The number of blocks does not depend on random draws.
BlockLayout block_layout(const ModelConfig& of_layer, std::int64_t layer, std::int64_t sequence);

// block_count: the blocks of all heads that have a layout of their own. density: their share of the blocks that dense
// attention computes for as many heads. That is the whole square, or in a causal model the diagonal and what is below
// it. Both are thread-safe and cache results. Windows of tokens change neither.
std::int64_t block_count(const ModelConfig& of_layer, std::int64_t sequence);
double density(const ModelConfig& of_layer, std::int64_t sequence);  // 1 where the layer is dense

// The most tokens that a query sees behind or before it, itself among them; 0 where a sequence is no longer than that.
std::int64_t window_of(const ModelConfig& of_layer, std::int64_t sequence);
// The share of dense attention's pairs that the layer computes, by its window and its layout. Of a layout's blocks it
// counts those that the window reaches.
double computed_share(const ModelConfig& of_layer, std::int64_t sequence);

}  // namespace trainyard::plan
