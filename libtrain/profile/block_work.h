// Passes of a model's blocks as ceilings: what a rank computes of one micro-batch in one block, by the blocks that
// train uses. Tensor-parallel and expert-parallel ranks are measured twice: without calls, so the other ranks of the
// layout need not be there, and with the calls of their groups, where the ranks that measure make up whole groups.
#pragma once

#include "libtrain/profile/ceilings.h"

#include <vector>

namespace trainyard::profile {

// For each kind of block of options.model, each of options.blocks and each dtype: forward, a step with and without
// recomputation, and forward with input gradients where weight gradients can be apart (plan/measured_blocks.h names
// them). Layouts that do not fit the model are left out. Small blocks are measured as a run of equal neighbours, which
// finds its data in memory and not in caches, as in a model. Recomputation and input gradients are measured with the
// smallest and the largest micro-batch of a layout alone.
std::vector<Ceiling> block_ceilings(const CeilingOptions& options);

// The layouts of --blocks auto on so many ranks: micro-batches of 1, 2 and as many sequences as have 2,048 tokens, at
// most 8, with every number of tensor-parallel and expert-parallel ranks that divides the ranks and fits the model.
std::vector<BlockLayout> automatic_blocks(const plan::ModelConfig& model, std::int64_t sequence, int ranks);

// Reads "auto", or lists such as "micro-batch=1,2,4 tensor-parallel=1,2 expert-parallel=1,2", of which one that is left
// out is 1. UsageError, whose message begins with `spelled`.
std::vector<BlockLayout> blocks_of_text(const std::string& text, const std::string& spelled,
                                        const plan::ModelConfig& model, std::int64_t sequence, int ranks);

// Why a layout of options.blocks does not fit the model, of the first such; empty: all do.
std::string left_out_of_blocks(const CeilingOptions& options);

}  // namespace trainyard::profile
