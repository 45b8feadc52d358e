// Checks that all ranks see the same files. If every machine has a folder of its own under one path, it looks right to
// each rank alone.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/world.h"
#include "libtrain/tensor/exec.h"

#include <string>
#include <vector>

namespace trainyard::engine {

// The functions below, except the last one, are collective, throw AgreedErrors, and do nothing for one rank.

// EnvironmentError (exit 4), with ranks and hosts, if a rank does not see what rank 0 writes into `output`. Rank 0 also
// writes into its folder of checkpoints, if there is one. The same error if a rank sees a later checkpoint than rank 0.
// A rank looks again for a while, because clients of file servers may remember what was there before. On a full disk
// the ranks look for the lock that rank 0 holds in `output` instead. Leaves nothing.
void require_shared_output(const std::string& output, const HeldOutput& held, World& world, tensor::Exec& exec);

// InputError (exit 3) if a rank reads another checkpoint at `path` than rank 0, EnvironmentError if it finds none
// there. Compares the manifest, whose checksums cover everything else. Does nothing for an empty path.
void require_same_checkpoint(const std::string& path, World& world, tensor::Exec& exec);

// EnvironmentError if one of `paths`, which a rank has found damaged, is whole for rank 0 or for the first rank of
// another machine. If there is only one machine, the last rank reads instead. Then the fault is in a machine, and no
// reason to set aside what others can read. Both ranks read everything, so call it only for rare cases, with the same
// list on every rank.
void require_damaged_for_all(const std::vector<std::string>& paths, World& world, tensor::Exec& exec);

// Throws EnvironmentError that names the host. For a rank other than 0 that does not find what rank 0 has, and whose
// own error would come first. Not collective.
[[noreturn]] void throw_not_seen(const base::Error& error);

}  // namespace trainyard::engine
