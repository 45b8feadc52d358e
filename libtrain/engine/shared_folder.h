// Whether all ranks see the same files: a folder that every machine has its own of looks right to each rank alone.
#pragma once

#include "libtrain/engine/run_context.h"
#include "libtrain/engine/world.h"

#include <string>

namespace trainyard::engine {

// All throw AgreedErrors, and are collective.

// EnvironmentError (exit 4), naming rank and host, where a rank does not see in `output` the lock that rank 0 holds
// there. Patient with file servers, whose clients may remember for a while what was there before. Nothing is asked
// where the file system has no locks.
void require_shared_output(const std::string& output, const HeldOutput& held, World& world, tensor::Exec& exec);

// InputError (exit 3) where a rank reads another checkpoint at `path` than rank 0, EnvironmentError where it finds none
// there: compared is the manifest, whose checksums cover everything else. Nothing to do for an empty path.
void require_same_checkpoint(const std::string& path, World& world, tensor::Exec& exec);

}  // namespace trainyard::engine
