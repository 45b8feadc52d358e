// The operations of a GPU module, as one table. Plain data only, so that nvcc sees no more of the project than it must.
#pragma once

#include "kernels/activation/activation_args.h"
#include "kernels/adafactor/adafactor_args.h"
#include "kernels/attention/attention_args.h"
#include "kernels/cached_attention/cached_attention_args.h"
#include "kernels/cast/cast_args.h"
#include "kernels/cross_entropy/cross_entropy_args.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/even_load/even_load_args.h"
#include "kernels/expert_mix/expert_mix_args.h"
#include "kernels/expert_rounds/expert_rounds_args.h"
#include "kernels/expert_rows/expert_rows_args.h"
#include "kernels/gate/gate_args.h"
#include "kernels/gate_record/gate_record_args.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/grouped_linear/grouped_linear_args.h"
#include "kernels/head_norm/head_norm_args.h"
#include "kernels/lane_sum/lane_sum_args.h"
#include "kernels/linear/column_sum.h"
#include "kernels/muon/muon_args.h"
#include "kernels/newton_schulz/newton_schulz_args.h"
#include "kernels/norm/norm_args.h"
#include "kernels/ordered_sum/ordered_sum_args.h"
#include "kernels/relative_positions/relative_positions_args.h"
#include "kernels/rotary/rotary_gpu_args.h"
#include "kernels/slot_groups/slot_groups_args.h"
#include "kernels/square_sum/square_sum_gpu_args.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "kernels/update/remainder_args.h"
#include "kernels/update/trust_ratio_args.h"
#include "kernels/update/update_args.h"

namespace trainyard::kernels {

// Every operation of a module, and its arguments. This list makes the module's functions, the table that programs see
// (kernels/gpu_kernels.h) and its contents (kernels/gpu_module.cpp). A new operation is a line here, its x_cuda.cu, and
// the next number of tensor::gpu_abi.
#define TRAINYARD_GPU_OPERATIONS(X)                     \
  X(activation, ActivationArgs)                         \
  X(adafactor_factors, AdafactorFactorsArgs)            \
  X(adafactor_lines, AdafactorLinesArgs)                \
  X(adafactor_squares, AdafactorSquaresArgs)            \
  X(adafactor_update, AdafactorUpdateArgs)              \
  X(attention_forward, AttentionForwardArgs)            \
  X(attention_backward, AttentionBackwardArgs)          \
  X(cached_attention, CachedAttentionArgs)              \
  X(cast, CastArgs)                                     \
  X(cross_entropy, CrossEntropyArgs)                    \
  X(sum_losses, SumLossesArgs)                          \
  X(dropout, DropoutArgs)                               \
  X(embedding_forward, EmbeddingArgs)                   \
  X(embedding_backward, EmbeddingBackwardArgs)          \
  X(even_load, EvenLoadArgs)                            \
  X(expert_combine_backward, ExpertCombineBackwardArgs) \
  X(expert_dispatch, ExpertDispatchArgs)                \
  X(expert_mix, ExpertMixArgs)                          \
  X(expert_round, ExpertRoundArgs)                      \
  X(expert_rounds, ExpertRoundsArgs)                    \
  X(expert_sum, ExpertSumArgs)                          \
  X(ordered_sum, OrderedSumArgs)                        \
  X(gate_backward, GateBackwardArgs)                    \
  X(gate_forward, GateForwardArgs)                      \
  X(gate_jitter, GateJitterArgs)                        \
  X(gate_record, GateRecordArgs)                        \
  X(gemm, GemmArgs)                                     \
  X(grouped_linear, GroupedLinearArgs)                  \
  X(grouped_weight, GroupedWeightArgs)                  \
  X(column_sum, ColumnSumArgs)                          \
  X(head_norm_backward, HeadNormBackwardArgs)           \
  X(head_norm_forward, HeadNormForwardArgs)             \
  X(head_norm_sums, HeadNormSumsArgs)                   \
  X(lane_sum, LaneSumArgs)                              \
  X(muon_direction, MuonDirectionArgs)                  \
  X(newton_schulz, NewtonSchulzArgs)                    \
  X(norm_forward, NormForwardArgs)                      \
  X(norm_backward, NormBackwardArgs)                    \
  X(norm_partial_sum, NormPartialSumArgs)               \
  X(relative_positions_expand, ExpandPositionsArgs)     \
  X(relative_positions_fold, FoldPositionsArgs)         \
  X(rotary, RotaryGpuArgs)                              \
  X(slot_groups, SlotGroupsArgs)                        \
  X(square_sum, SquareSumGpuArgs)                       \
  X(square_sum_total, SquareSumTotalArgs)               \
  X(step_numbers, StepNumbersArgs)                      \
  X(update_squares, UpdateSquaresArgs)                  \
  X(update_carry, CarrySquaresArgs)                     \
  X(update_ratios, TrustRatiosArgs)                     \
  X(update_join, JoinMasterArgs)                        \
  X(update_split, SplitMasterArgs)                      \
  TRAINYARD_UPDATE_RULES(X)

// Every pointer in the arguments is device memory; `threads` is ignored. Work goes to `stream`. Returns nullptr on
// success, otherwise a text that describes what could not be launched.
namespace gpu {
#define TRAINYARD_GPU_FUNCTION(name, Args) const char* name(const Args&, void* stream);
TRAINYARD_GPU_OPERATIONS(TRAINYARD_GPU_FUNCTION)
#undef TRAINYARD_GPU_FUNCTION
}  // namespace gpu

}  // namespace trainyard::kernels
