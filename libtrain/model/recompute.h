// recompute(block): saves only the block's input; backward runs the forward again. Same bits, less memory (Chen et al.
// 2016). recompute_selectively(block): the block itself recomputes what costs least.
#pragma once

#include "libtrain/model/block.h"

#include <memory>

namespace trainyard::model {

// The second forward serves only what the inner block saves (Output::unread). It need not make, send or add up what
// nobody reads. It needs no more workspace than the inner block, and backward has no more saved than the inner block's
// forward. The inner block must be a pure function of its input, its weights and the step (keyed dropout is). The
// second forward and the backward share one lease of each occurrence. So the order of leases is the same as without
// recomputation. `layer` counts the layers of a chunk: with Step::inputs the input may lie elsewhere.
std::unique_ptr<Block> recompute(std::unique_ptr<Block> inner, std::int64_t layer = 0);

// Runs the inner block with Recompute::selective: it keeps the tensors that always stay, and recomputes the others in
// backward. A block that does not read Step::recompute keeps all.
std::unique_ptr<Block> recompute_selectively(std::unique_ptr<Block> inner);

}  // namespace trainyard::model
