// How much of a shard set a run reads, from the numbers of tokens in the shards. data/window_dataset.h says how windows
// lie in shards.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace trainyard::plan {

struct DataUse {
  // Windows are of sequence + 1 tokens, and the last token of a window is the first of the next. Of pairs: rows.
  std::int64_t windows = 0;
  std::int64_t tokens = 0;      // in all shards
  std::int64_t in_windows = 0;  // tokens that are an input or a target of some window
  double share() const { return tokens > 0 ? static_cast<double>(in_windows) / static_cast<double>(tokens) : 0; }
};

DataUse data_use(std::span<const std::int64_t> shard_tokens, std::int64_t sequence);

// One line: "data: 4,320 windows of 129 tokens, with 98.2 % of the training tokens".
std::string data_use_text(const DataUse& use, std::int64_t sequence);
// The same of rows of pairs: "data: 120 rows of 64 + 128 tokens (sources and targets), with 99.8 % of ...".
std::string rows_text(const DataUse& use, std::int64_t source_sequence, std::int64_t sequence);
// How often a run that ends after `samples` sequences reads the windows: "in 500 steps each is read 3.7 times
// (epochs)". If that is less than once: "500 steps read 12 % of them".
std::string epochs_text(const DataUse& use, std::int64_t steps, std::int64_t samples);
// A warning, with what helps, if a tenth of the tokens or more lies in no window; else empty.
std::string left_out_text(const DataUse& use, std::int64_t sequence);

}  // namespace trainyard::plan
