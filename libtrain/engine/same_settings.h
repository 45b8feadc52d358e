// Settings that must be equal on every rank of a job. A rank with other settings would take part in other collectives,
// and all ranks would wait for ever.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/world.h"

#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {

using NamedSettings = std::vector<std::pair<std::string, std::string>>;  // name and value: "stop-after", "20"

// The settings of a run that all ranks share. Left out are settings that a rank may have for itself (threads,
// memory-limit, progress). Names of files whose content is compared after reading (model, data, plan) are left out,
// too.
NamedSettings shared_settings(const RunConfig& config);

// If values differ, every rank throws a UsageError that names the first rank with other values, its values and rank
// 0's. A name that rank 0 does not have is not compared. Collective.
void require_same(const NamedSettings& mine, World& world, tensor::Exec& exec);

// The values of model, data and plan as one text, which rank 0 tells the others for throw_other_content().
std::string file_settings(const RunConfig& config);

// Throws for a rank that has read another `content` ("data, model") than rank 0. If the ranks were given other files, a
// UsageError names these settings; else an InputError says that the folder may not be shared.
[[noreturn]] void throw_other_content(const std::string& content, const RunConfig& config,
                                      const std::string& settings_of_rank_zero);

// The instruction-set path whose bits a run of this working dtype has on this processor. For dtypes other than bf16, a
// path that differs only in products of bf16 counts as its base path.
const char* instructions_of(base::DType dtype);

// EnvironmentError on every rank if the kernels of one rank have other bits than the kernels of rank 0: the run would
// have the bits of neither. Collective.
void require_same_instructions(base::DType dtype, World& world, tensor::Exec& exec);

}  // namespace trainyard::engine
