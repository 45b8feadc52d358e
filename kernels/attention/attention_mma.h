// Attention on tensor cores: bf16, head sizes 64 and 128.
#pragma once

#include "kernels/attention/attention_args.h"

namespace trainyard::kernels::gpu {

// Rows of all operands begin at multiples of 16 bytes, dtype and head size fit.
bool attention_mma_fits(const AttentionArgs& args);
const char* attention_forward_mma(const AttentionArgs& args, void* stream);
// The same on Hopper, where queries see earlier keys of their document and nothing is dropped (sees_of). False where
// the device, its driver or the arguments are not so; then nothing was done. args.scratch:
// plan::gpu_attention_forward_scratch_bytes.
bool attention_forward_hopper(const AttentionArgs& args, void* stream, const char*& failure);
// args.scratch: plan::gpu_attention_backward_scratch_bytes, of f32.
bool attention_backward_hopper(const AttentionArgs& args, void* stream, const char*& failure);
// args.scratch: plan::gpu_attention_backward_scratch_bytes.
const char* attention_backward_mma(const AttentionArgs& args, void* stream);

}  // namespace trainyard::kernels::gpu
