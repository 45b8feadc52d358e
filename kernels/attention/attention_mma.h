// Attention on tensor cores: bf16, head sizes 64 and 128.
#pragma once

#include "kernels/attention/attention_args.h"

namespace trainyard::kernels::gpu {

// Rows of all operands begin at multiples of 16 bytes, dtype and head size fit.
bool attention_mma_fits(const AttentionArgs& args);
const char* attention_forward_mma(const AttentionArgs& args, void* stream);
// args.scratch: plan::gpu_attention_backward_scratch_bytes.
const char* attention_backward_mma(const AttentionArgs& args, void* stream);

}  // namespace trainyard::kernels::gpu
