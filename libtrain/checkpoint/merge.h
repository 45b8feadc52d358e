// Merging low-rank adapters into the weights beside them.
#pragma once

#include "libtrain/checkpoint/reshard.h"

#include <map>
#include <string>

namespace trainyard::checkpoint {

// The parameters of the adapter beside a weight.
struct AdapterOfWeight {
  std::string a, b;
};
// By the name of the weight; empty for a model without adapters.
std::map<std::string, AdapterOfWeight> adapters_of_weights(const plan::ModelConfig& model);

// Writes a new checkpoint of the model without adapters, with the weights alone: W + scale B A, computed in f64 and
// rounded once. It is in f32 unless the layout names another dtype. UsageError for a checkpoint without adapters. All
// else is as for average().
ReshardResult merge_adapters(const Reader& source, const std::string& destination, const NewLayout& layout,
                             const ReshardOptions& options);

}  // namespace trainyard::checkpoint
