// KvCache: keys and values of the tokens that a model has seen of one text, so that the next token needs its own row
// alone.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/plan/model_config.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <vector>

namespace trainyard::model {

// Evaluation of one sequence. A first pass with length 0 brings any number of tokens; every later pass brings one.
// Blocks write the rows of the pass behind the first `length`; the caller adds the pass to `length` when it is over.
// Memory: 2 layers context kv_heads head_dim elements, from the given arena.
struct KvCache {
  KvCache(const plan::ModelConfig& model, base::DType dtype, tensor::Arena& arena) {
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      keys.push_back(arena.allocate(dtype, {model.context, model.kv_heads * model.head_dim()}));
      values.push_back(arena.allocate(dtype, {model.context, model.kv_heads * model.head_dim()}));
    }
  }
  static std::int64_t bytes(const plan::ModelConfig& model, base::DType dtype) {
    return 2 * model.layers * base::aligned(model.context * model.kv_heads * model.head_dim() * base::size_of(dtype));
  }

  std::vector<base::View> keys, values;  // per layer [context, kv_heads * head_dim]; keys after rotation
  std::int64_t length = 0;               // tokens before this pass
};

}  // namespace trainyard::model
