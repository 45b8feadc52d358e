// Resharding: converts a checkpoint of any parallel layout and size to another one. The new one has any number of
// data-parallel and tensor-parallel ranks and pipeline stages, and any degree of expert parallelism. The files are
// those that train would have written there.
#pragma once

#include "libtrain/checkpoint/new_checkpoint.h"
#include "libtrain/checkpoint/new_layout.h"
#include "libtrain/checkpoint/reader.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

struct ReshardOptions {
  base::Existing existing = base::Existing::refuse;  // as in NewCheckpointOptions
  std::int64_t memory = std::int64_t{256} << 20;     // buffers of all threads together, in bytes
  int threads = 1;
  std::string history;  // as in NewCheckpointOptions
  std::function<std::int64_t(const std::string& folder)> free_bytes;
  // Receives now and then the bytes of the source that were read, and the bytes to read in total. One thread at a time
  // calls it. An exception that it throws ends the work.
  std::function<void(std::int64_t done, std::int64_t total)> watch;
};
inline constexpr std::int64_t least_reshard_memory = std::int64_t{4} << 20;  // with one thread

struct ReshardResult {
  int ranks = 1, kept = 0;                         // rank files, and how many of them an earlier start had finished
  std::int64_t bytes_read = 0, bytes_written = 0;  // of payloads
  Manifest manifest;
};

// Every block of the source is read once, its checksum compared, and its elements written where they belong. With
// Contents::model of a source that has more, only blocks of the needed weights are read. Every block that was written
// is read back. The resulting fingerprints of all tensors must equal those in the source's manifest; only then does the
// checkpoint get its name. A damaged source is an InputError naming file, tensor and element range. `source` is the
// reader of the whole source (Check::all_but_payloads).
ReshardResult reshard(const Reader& source, const std::string& destination, const NewLayout& layout,
                      const ReshardOptions& options);

// The purpose of a new checkpoint (RunState::writer). Two starts of the same work on the same sources get the same
// text.
std::string purpose_of(const std::string& work, const std::vector<const Reader*>& sources, const RunState& state,
                       const plan::Topology& ranks);

}  // namespace trainyard::checkpoint
