// Whether all ranks see the same files: a folder that every machine has its own of looks right to each rank alone.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/world.h"

#include <string>
#include <vector>

namespace trainyard::engine {

// All throw AgreedErrors, are collective, and ask nothing in a world of one.

// EnvironmentError (exit 4), naming ranks and hosts, where a rank does not see what rank 0 writes into `output`, or
// into its folder of checkpoints where there is one, or sees a later checkpoint than rank 0. Patient with file servers,
// whose clients may remember for a while what was there before. On a full disk the lock that rank 0 holds in `output`
// is looked for instead. Leaves nothing.
void require_shared_output(const std::string& output, const HeldOutput& held, World& world, tensor::Exec& exec);

// InputError (exit 3) where a rank reads another checkpoint at `path` than rank 0, EnvironmentError where it finds none
// there: compared is the manifest, whose checksums cover everything else. Nothing to do for an empty path.
void require_same_checkpoint(const std::string& path, World& world, tensor::Exec& exec);

// EnvironmentError where one of `paths`, which somebody has found damaged, is whole for rank 0 or for the first rank of
// another machine (the last rank where there is one machine alone): what is wrong is of a machine then, and no reason
// to set aside what others can read. Both read all of it, so it is for what is rare. The same list on every rank.
void require_damaged_for_all(const std::vector<std::string>& paths, World& world, tensor::Exec& exec);

// Not collective. For a rank other than 0 that does not find what rank 0 has, whose own error would come first:
// EnvironmentError that names the host.
[[noreturn]] void throw_not_seen(const base::Error& error);

}  // namespace trainyard::engine
