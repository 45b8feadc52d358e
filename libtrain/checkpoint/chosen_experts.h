// A mixture of experts that is made of others: two mixtures side by side, or the experts of one that were used most.
#pragma once

#include "libtrain/checkpoint/expert_use.h"
#include "libtrain/checkpoint/reshard.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// The source of a new expert.
struct ChosenExpert {
  int source = 0;
  std::int64_t expert = 0;
};
struct ChosenExperts {
  std::string work;                               // "join experts" or "keep experts"
  plan::ModelConfig model;                        // of the new checkpoint
  std::vector<std::vector<ChosenExpert>> layers;  // of each layer with experts, in order; the new experts in order
};

// All experts of all sources, in their order (Kim et al. 2021, arXiv:2109.10465). Models may differ in the number of
// experts, in lanes, and in settings that matter only in training. The last model's are taken. UsageError for models
// without experts or with adapters, and where the new model would be illegal. InputError for different models and for
// different tokenizers.
ChosenExperts joined_experts(const std::vector<const Reader*>& sources);

// In each layer the `count` experts with the most choices, of equals the first, in their order. UsageError for a model
// without experts, with adapters, or with groups of experts; also where a layer has fewer experts, no layer has more,
// or a token chooses more. InputError, beginning with `where`, for the use of another checkpoint.
ChosenExperts most_used_experts(const Reader& source, std::int64_t count, const ExpertUse& use,
                                const std::string& where);

// The manifest of a source as if its model were the new one. The ranks of the new checkpoint follow from it.
Manifest manifest_of_chosen(const Reader& source, const ChosenExperts& chosen);

// Writes a new checkpoint of weights alone. Experts, and the rows of gates that belong to them, come from their
// sources. All other weights are the mean over the sources, summed in f64 in order and rounded once. It is in f32
// unless the layout names another dtype. Step, counters and origin come from the last source. All else is as for
// average().
ReshardResult take_experts(const std::vector<const Reader*>& sources, const ChosenExperts& chosen,
                           const std::string& destination, const NewLayout& layout, const ReshardOptions& options);

}  // namespace trainyard::checkpoint
