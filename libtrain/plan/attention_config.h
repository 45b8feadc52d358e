// AttentionConfig: what a query may see beside its document, as data: later keys or not, and which blocks of them.
#pragma once

#include "libtrain/base/shared_text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Block-sparse attention: of the square of queries and keys, cut into blocks, a layout says which are computed (Child
// et al. 2019, "Generating long sequences with sparse transformers": fixed; Beltagy et al. 2020, "Longformer"; Zaheer
// et al. 2020, "Big Bird"). Sizes and indices count blocks. The rules: plan/block_layout.h.
struct AttentionConfig {
  bool causal = true;  // no query sees a later key, whatever the layout
  // Of the layers, in order, and again from the first where there are more layers: dense, fixed, variable, bigbird,
  // longformer, sliding, file. What a layer sees of its model (plan/layer_model.h) has its own alone.
  std::vector<std::string> layout = {"dense"};
  std::int64_t block = 64;                // queries, and keys, of a block: 16, 32, 64, 128
  std::int64_t window = 3;                // sliding, bigbird, longformer
  std::vector<std::int64_t> local = {4};  // fixed: one; variable: of each window, the last repeats
  std::int64_t global = 1;                // fixed: columns of a window; bigbird: first rows and columns
  std::int64_t patterns = 1;              // fixed: heads after one another have other global columns; needs per_head
  std::string global_blocks = "0";        // variable, longformer: "0, 5, 8:12", a range without its end
  std::int64_t random = -1;               // variable, bigbird: columns drawn for a row; -1: 0 and 1
  bool horizontal = false;                // fixed, variable; global rows see everything; not causal
  bool per_head = false;                  // draws and patterns of each head, else those of the first for all
  bool shared_draws = false;              // the same draws in all layers
  std::uint64_t seed = 0;                 // of draws
  std::string file;                       // what a layout "file" was read from, as it was named
  // Its blocks, so that the model is whole without the file (plan/block_ranges.h).
  base::SharedText file_blocks;
  bool operator==(const AttentionConfig&) const = default;
};

}  // namespace trainyard::plan
