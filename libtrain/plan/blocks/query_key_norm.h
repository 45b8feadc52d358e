// The norms of queries and keys (ModelConfig::qk_norm): what attention declares, saves and needs for them.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

#include <vector>

namespace trainyard::plan {

// With QkNorm::none all of these are nothing.
void declare_query_key_norms(Declaration& flat_group);
// "qk_squares": sums of squares in the accumulation dtype, a row for each head of queries and then of keys, or one row
// for all queries and one for all keys. "qk": queries and keys as attention sees them, normed and rotated; "qkv" has
// them as the product made them. "qk_norm_gradients" holds the weights' gradients until weight gradients are made.
void add_query_key_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass, std::vector<SavedTensor>& to);
std::int64_t query_key_forward_bytes(const ModelConfig& model, const MicroShape& shape);  // scratch
std::int64_t query_key_backward_bytes(const ModelConfig& model, const MicroShape& shape);
// Sums over a width that ranks divide are gathered lane by lane: of squares in forward, and in backward of what the
// gradient has along the row. Weights of heads, which every rank has, get the sum over the heads of all ranks.
std::vector<GroupCall> query_key_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                       Recompute recompute);
// Bytes read and written: the sums read queries and keys, and the norm reads and writes them; backward reads the
// gradient, too.
void add_query_key_work(const ModelConfig& model, const MicroShape& shape, BlockWork& to);

}  // namespace trainyard::plan
