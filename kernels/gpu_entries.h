// The entries of a GPU module, one for each x_cuda.cu; plain data only, so that nvcc sees no more of the project than it must.
#pragma once

#include "kernels/activation/activation_args.h"
#include "kernels/adamw/adamw_args.h"
#include "kernels/attention/attention_args.h"
#include "kernels/cached_attention/cached_attention_args.h"
#include "kernels/cast/cast_args.h"
#include "kernels/cross_entropy/cross_entropy_args.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/fold/fold_args.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/linear/column_sum.h"
#include "kernels/norm/norm_args.h"
#include "kernels/rotary/rotary_gpu_args.h"
#include "kernels/square_sum/square_sum_gpu_args.h"
#include "kernels/step_numbers/step_numbers_args.h"

namespace trainyard::kernels {

// Every pointer in the arguments is device memory; `threads` does not matter. Work goes to `stream`. Text tells what could not be started, nullptr that all is well.
namespace gpu {
const char* activation(const ActivationArgs&, void* stream);
const char* adamw(const AdamWArgs&, void* stream);
const char* attention_forward(const AttentionArgs&, void* stream);
const char* attention_backward(const AttentionArgs&, void* stream);
const char* cached_attention(const CachedAttentionArgs&, void* stream);
const char* cast(const CastArgs&, void* stream);
const char* cross_entropy(const CrossEntropyArgs&, void* stream);
const char* sum_losses(const SumLossesArgs&, void* stream);
const char* dropout(const DropoutArgs&, void* stream);
const char* embedding_forward(const EmbeddingArgs&, void* stream);
const char* embedding_backward(const EmbeddingArgs&, void* stream);
const char* fold(const FoldArgs&, void* stream);
const char* gemm(const GemmArgs&, void* stream);
const char* column_sum(const ColumnSumArgs&, void* stream);
const char* norm_forward(const NormArgs&, void* stream);
const char* norm_backward(const NormArgs&, void* stream);
const char* rotary(const RotaryGpuArgs&, void* stream);
const char* square_sum(const SquareSumGpuArgs&, void* stream);
const char* square_sum_total(const SquareSumTotalArgs&, void* stream);
const char* step_numbers(const StepNumbersArgs&, void* stream);
}  // namespace gpu

}  // namespace trainyard::kernels
