// Resharding: a checkpoint of any layout becomes one of any number of data-parallel and tensor ranks and pipeline
// stages, whose experts ranks may share, as train would have written it there, whatever its size.
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
  base::Existing existing = base::Existing::refuse;  // as NewCheckpointOptions
  std::int64_t memory = std::int64_t{256} << 20;     // for buffers of all threads together
  int threads = 1;
  std::string history;  // as NewCheckpointOptions
  std::function<std::int64_t(const std::string& folder)> free_bytes;
  // Told now and then how many bytes of the source were read and how many there are to read; by one thread at a time.
  // What it throws ends the work.
  std::function<void(std::int64_t done, std::int64_t total)> watch;
};
inline constexpr std::int64_t least_reshard_memory = std::int64_t{4} << 20;  // with one thread

struct ReshardResult {
  int ranks = 1, kept = 0;                         // rank files, and those that an earlier start had finished
  std::int64_t bytes_read = 0, bytes_written = 0;  // of payloads
  Manifest manifest;
};

// Every block of the source is read once (with Contents::model of a source that has more: every one that the weights
// come from), its checksum compared, and its elements written where they belong; every
// block that was written is read back, and the fingerprints of all tensors that come of it must be those that the
// source's manifest says, or nothing gets the name. A damaged source is an InputError naming file, tensor and element
// range. `source` is the reader of the whole source (Check::all_but_payloads).
ReshardResult reshard(const Reader& source, const std::string& destination, const NewLayout& layout,
                      const ReshardOptions& options);

// Why a new checkpoint is made (RunState::writer): two starts of the same work on the same sources say the same.
std::string purpose_of(const std::string& work, const std::vector<const Reader*>& sources, const RunState& state,
                       const plan::Topology& ranks);

}  // namespace trainyard::checkpoint
