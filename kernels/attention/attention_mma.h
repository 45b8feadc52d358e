// Attention on tensor cores: bf16, head sizes 64 and 128.
#pragma once

#include "kernels/attention/attention_args.h"

namespace trainyard::kernels::gpu {

// Whether dtype and head size fit, and the rows of all operands begin at multiples of 16 bytes.
bool attention_mma_fits(const AttentionForwardArgs& args);
bool attention_mma_fits(const AttentionBackwardArgs& args);
const char* attention_forward_mma(const AttentionForwardArgs& args, void* stream);
// The forward pass on Hopper, where queries see earlier keys of their document and there is no dropout (sees_of).
// Returns false, and has done nothing, if the device, its driver or the arguments do not fit. args.scratch:
// plan::gpu_attention_forward_scratch_bytes.
bool attention_forward_hopper(const AttentionForwardArgs& args, void* stream, const char*& failure);
// The backward pass on Hopper, under the same conditions. args.scratch: plan::gpu_attention_backward_scratch_bytes for
// f32.
bool attention_backward_hopper(const AttentionBackwardArgs& args, void* stream, const char*& failure);
// The gradient of the bias of positions, after the products of outputs and their gradients, which are in args.scratch.
const char* attention_bias_mma(const AttentionBackwardArgs& args, void* stream);
// args.scratch: plan::gpu_attention_backward_scratch_bytes.
const char* attention_backward_mma(const AttentionBackwardArgs& args, void* stream);

}  // namespace trainyard::kernels::gpu
