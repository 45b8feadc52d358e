// AttentionConfig: what a query may see within its document: whether it sees later keys, and which blocks.
#pragma once

#include "libtrain/base/shared_text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Block-sparse attention. The square of queries and keys is divided into blocks, and a layout says which blocks are
// computed. Sources: fixed is of Child et al. 2019, "Generating long sequences with sparse transformers"; longformer of
// Beltagy et al. 2020, "Longformer"; bigbird of Zaheer et al. 2020, "Big Bird". Sizes and indices count blocks. The
// rules are in plan/spec/block_layout.h.
struct AttentionConfig {
  bool causal = true;  // no query sees a later key, whatever the layout
  // The layouts of the layers in order, starting again from the first where there are more layers: dense, fixed,
  // variable, bigbird, longformer, sliding, file. In the model as a layer sees it (plan/spec/layer_model.h) the list
  // has only that layer's layout.
  std::vector<std::string> layout = {"dense"};
  std::int64_t block = 64;                // queries, and keys, in a block: 16, 32, 64, 128
  std::int64_t window = 3;                // sliding, bigbird, longformer
  std::vector<std::int64_t> local = {4};  // fixed: one size; variable: the size of each window, the last repeats
  std::int64_t global = 1;                // fixed: columns in a window; bigbird: first rows and columns
  std::int64_t patterns = 1;        // fixed: so many successive heads have different global columns; needs per_head
  std::string global_blocks = "0";  // variable, longformer: "0, 5, 8:12", ranges exclude their end
  std::int64_t random = -1;         // variable, bigbird: random columns in a row; -1 means 0 and 1
  bool horizontal = false;          // fixed, variable: global rows see everything; needs causal = false
  bool per_head = false;            // each head has its own draws and patterns; else all use the first head's
  bool shared_draws = false;        // all layers have the same draws
  std::uint64_t seed = 0;           // of the random draws
  std::string file;                 // the file that a layout "file" was read from, as the user named it
  // The blocks of that file, so that the model is complete without the file (plan/spec/block_ranges.h).
  base::SharedText file_blocks;
  // Tokens that a query sees at most, itself among them: of the layers in order, starting again from the first. 0: no
  // limit. In the model as a layer sees it the list has only that layer's number (Beltagy et al. 2020, section 3.1;
  // Jiang et al. 2023, "Mistral 7B").
  std::vector<std::int64_t> window_tokens = {0};
  double softcap = 0;  // c: scores become c tanh(scores / c) before the mask; 0: they stay (Gemma Team 2024, "Gemma 2")
  bool operator==(const AttentionConfig&) const = default;
};

}  // namespace trainyard::plan
