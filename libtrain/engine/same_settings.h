// Settings that every rank of a job must have alike: with others a rank would take part in other collectives, and all
// would wait for ever.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/world.h"

#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {

using NamedSettings = std::vector<std::pair<std::string, std::string>>;  // "stop-after", "20"

// Those of a run. Left out are what one rank may have for itself (threads, memory-limit, progress) and names of files
// whose content is compared once it is read (model, data, plan).
NamedSettings shared_settings(const RunConfig& config);

// Collective; the names are the same on every rank. Where values differ, every rank throws a usage error that names the
// first rank with others, what it has and what rank 0 has.
void require_same(const NamedSettings& mine, World& world, tensor::Exec& exec);

// The instruction-set path whose bits a run of that working dtype has on this processor: what is another in products of
// bf16 alone counts for them alone.
const char* instructions_of(base::DType dtype);

// Collective; an EnvironmentError on every rank where the kernels of one have other bits than those of rank 0: those of
// the run would be neither's.
void require_same_instructions(base::DType dtype, World& world, tensor::Exec& exec);

}  // namespace trainyard::engine
