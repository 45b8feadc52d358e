// EvaluationTerms: what is evaluated, decided before memory is reserved.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/setup.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

struct EvaluationTerms {
  std::string checkpoint;
  checkpoint::RunState state;
  RunConfig run;
  RunSetup setup;
  const std::vector<data::ShardEntry>* split = nullptr;
  std::int64_t sequences = 0;
  std::size_t set = 0, sets = 1;      // which of the sets that $data names, and how many are evaluated
  std::vector<std::string> left_out;  // those of several that have no such split
};

// The settings that decide which collectives an evaluation issues. What the user did not give comes from the
// checkpoint.
NamedSettings shared_settings(const EvaluateConfig& config);
plan::Residence residence(const EvaluateConfig& config);

// Rank 0 reads first and finds what is wrong. Only then do the other ranks read the same files.
// `terms` says which set. Throws as evaluate() does. Collective.
void agree_on_terms(EvaluationTerms& terms, const EvaluateConfig& config, World& world, tensor::Exec& exec);

}  // namespace trainyard::engine
