// SetWindows: a split of a shard set as the sequences that a run reads, whatever it learns of them (tasks.h).
#pragma once

#include "libtrain/data/denoising.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/run_sets.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// How a run reads all of its sets.
struct SetReading {
  std::int64_t sequence = 0, source_sequence = 0;  // source_sequence: with an encoder, else 0
  data::DocumentMask mask = data::DocumentMask::off;
  bool answers_only = false;
  std::uint64_t seed = 0;                         // of the order in training, and of what is hidden there
  std::optional<data::Masking> masking = {};      // of a masked model
  std::optional<data::Denoising> denoising = {};  // of texts that are restored
  std::int32_t start = 0;                         // the token that begins the inputs of a decoder
};

class SetWindows {
 public:
  // `open`: the most shard files that are open at a time. InputError if the split holds no sequence; UsageError if the
  // sequences are too short for the task.
  SetWindows(const RunSet& set, const std::vector<data::ShardEntry>& split, data::Order order,
             const SetReading& reading, int open = data::WindowDataset::most_open);
  data::SampledWindows& windows() { return *windows_; }

 private:
  std::unique_ptr<data::SampledWindows> windows_;
};

// What a split has of sequences. Pairs are counted from the shards, other sets from the index alone. pairs_left_out:
// those that are longer than a row.
struct SplitUse : plan::DataUse {
  std::int64_t pairs_left_out = 0;
};
SplitUse use_of(const RunSet& set, const std::vector<data::ShardEntry>& split, const SetReading& reading);
// Sets RunSet::use and its kin, of every set; of validation splits only where the run reads them.
void take_uses(std::vector<RunSet>& sets, const SetReading& reading, bool validates);

// The tokens of a text that become one sequence.
std::int64_t tokens_of_text(const RunSet& set, const SetReading& reading);

// A warning if much of the training split, or a pair of it, is in no sequence; else "".
std::string left_out_text(const RunSet& set, const SetReading& reading);

}  // namespace trainyard::engine
