// What the low-rank adapters of a layer declare, save and need. Branches add it to their own descriptions
// (model/adapters.h has the adapters themselves).
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

// The flat group of a layer's adapters, "layers.07.adapter", with a parameter "attention.q.adapter_a" and
// "attention.q.adapter_b" for each linear layer that has one. A is Normal(0, 1 / sqrt(3 in)), which has the variance of
// a uniform distribution up to 1 / sqrt(in); B is zero, so a new adapter changes nothing.
FlatGroup adapter_flat_group(const ModelConfig& model, const std::string& layer);
bool is_adapter(const FlatGroup& flat_group);

// A linear layer with an adapter, as one rank computes it.
struct AdapterSite {
  const AdapterTarget* target;
  std::int64_t out, in;  // of this rank
};
// The sites of a model among the targets of a branch, in the order of adapter_targets. divides_outputs: those that are
// column-parallel, or else row-parallel.
std::vector<AdapterSite> adapter_sites(const ModelConfig& model, int tensor, std::string_view branch,
                                       bool divides_outputs);

// The rows of A x that a site keeps for backward: "adapter q". With sequence parallelism a row-parallel site keeps the
// rank's own rows.
const char* adapter_tensor(std::string_view target);
void add_adapter_tensors(const ModelConfig& model, const MicroShape& shape, std::string_view branch,
                         std::vector<SavedTensor>& to);

// Scratch of a branch's column-parallel or row-parallel adapters, beside what the branch has at that time: of forward,
// and of backward.
std::int64_t adapter_forward_bytes(const ModelConfig& model, const MicroShape& shape, std::string_view branch,
                                   bool divides_outputs);
std::int64_t adapter_backward_bytes(const ModelConfig& model, const MicroShape& shape, std::string_view branch,
                                    bool divides_outputs);

// Whether backward reads the branch's input: for weight gradients, or for those of adapters.
bool reads_input_in_backward(const ModelConfig& model, std::string_view branch);

// Tensor-parallel collectives of a branch's adapters.
std::vector<GroupCall> adapter_calls(const ModelConfig& model, const MicroShape& shape, Pass pass, Recompute recompute,
                                     std::string_view branch);

// FLOPs of forward, for each token.
double adapter_flops(const ModelConfig& model, std::string_view branch);
// Takes the weight gradients of frozen weights out of the work of a branch, and adds the work of its adapters.
void add_adapter_work(const ModelConfig& model, const MicroShape& shape, std::string_view branch, BlockWork& to);

}  // namespace trainyard::plan
