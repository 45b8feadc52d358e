// recompute(block): saves only the block's input; backward runs the forward again. Same bits, less memory (Chen et al.
// 2016). recompute_selectively(block): the block itself makes again what costs least.
#pragma once

#include "libtrain/model/block.h"

#include <memory>

namespace trainyard::model {

// The second forward is for what the inner block saves (Output::unread): it need not make, send or add up what nobody
// reads. Needs no more workspace than the inner block, and in backward no more saved than its forward had. The inner
// block must be a pure function of its input, its weights and the step (dropout is keyed, so it is). The second forward
// and the backward share one lease of each occurrence: the order of leases is the same as without recomputation.
std::unique_ptr<Block> recompute(std::unique_ptr<Block> inner);

// Tells the inner block Recompute::selective: it keeps of its tensors those that always stay, and makes the others
// again in backward. One that does not ask the step keeps all.
std::unique_ptr<Block> recompute_selectively(std::unique_ptr<Block> inner);

}  // namespace trainyard::model
