// KvCache: keys and values of the earlier tokens of one text, so that the next token needs only its own row.
// SourceCache: those of a source, to which the layers behind an encoder attend.
#pragma once

#include "kernels/attention/attention.h"
#include "libtrain/base/view.h"
#include "libtrain/model/block.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <vector>

namespace trainyard::model {

struct SourceCache {
  // `rows`: the most tokens of a source. Memory from the given arena.
  SourceCache(const plan::ModelConfig& model, base::DType dtype, std::int64_t rows, tensor::Arena& arena);
  static std::int64_t bytes(const plan::ModelConfig& model, base::DType dtype, std::int64_t rows);
  // Keys and values side by side, [rows, 2 kv_heads head_dim], per layer; empty for the layers of an encoder.
  std::vector<base::View> kv;
  std::int64_t length = 0;  // tokens of the source, after the first pass
};

// For evaluation of one sequence on the CPU. The first pass, with length 0, brings any number of tokens; every later
// pass brings one, and may bring one of several sequences, each with a cache of its own. Blocks write the rows of the
// pass behind the first `length`. The caller adds the pass to `length` when it is over. Memory: 2 kv_heads head_dim
// elements for each row of each layer, from the given arena.
struct KvCache {
  KvCache(const plan::ModelConfig& model, base::DType dtype, tensor::Arena& arena);
  static std::int64_t bytes(const plan::ModelConfig& model, base::DType dtype);
  // Rows of a layer: the context, or what its sliding window reaches. Position p has row p modulo this number.
  static std::int64_t rows(const plan::ModelConfig& of_layer);
  // The most scratch that attend needs in f32, over all layers, in passes over one token of each of `texts`.
  static std::int64_t scratch_bytes(const plan::ModelConfig& model, std::int64_t texts = 1);

  // Stores the rows of a pass, [n, kv_heads * head_dim]; keys are already rotated.
  void keep(tensor::Exec& exec, std::int64_t layer, base::View k, base::View v);
  // Attention of the query at position `length`, whose own row is stored already. It sees the rows that
  // shape.visibility lets it see. shape.bias is of the distances from it to each of them, [heads, length + 1].
  void attend(tensor::Exec& exec, std::int64_t layer, const kernels::AttentionShape& shape, base::View q,
              base::View out) const;

  // Copies the rows of another cache of the same model, and goes on from its length with its source.
  void go_on_from(tensor::Exec& exec, const KvCache& other);

  std::vector<base::View> keys, values;  // per layer; empty for the layers of an encoder
  std::int64_t length = 0;               // tokens before this pass
  SourceCache* source = nullptr;         // behind an encoder; several texts may have the same one
};

// Is this a later pass, which brings one token of each text? An encoder does not run in such a pass.
inline bool goes_on(const Step& step) { return !step.past.empty() && step.past[0]->length > 0; }

}  // namespace trainyard::model
