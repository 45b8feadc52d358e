// WindowDataset: a split of a shard set as windows of T + 1 tokens, in a keyed order without an index (decision 10).
#pragma once

#include "libtrain/data/shard_reader.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

enum class DocumentMask { off, on };
enum class Order { keyed, as_stored };  // validation is read as stored, the same every time

// One sequence of T tokens to fill.
struct WindowPtrs {
  std::int32_t *tokens, *targets, *positions, *document_start;
  std::uint8_t* weights;
};

// Window w of a shard covers tokens [w T, w T + T], so consecutive windows share one token and none crosses a shard.
// Sample ordinal s is window permutation(s mod count) of epoch s / count, keyed by (seed, epoch). fill may be called
// from one thread at a time.
class WindowDataset {
 public:
  WindowDataset(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split,
                std::int64_t sequence, DocumentMask mask, Order order, std::uint64_t seed);
  static constexpr int most_open = 128;  // files of shards at a time, however many there are

  std::uint64_t count() const { return first_window_.back(); }
  std::int64_t sequence() const { return sequence_; }

  // With the mask off: positions 0 .. T-1, document_start 0, weights 1. On: positions restart at each document,
  // document_start is the index in the window where the token's document begins, and the target that begins the next
  // document has weight 0.
  void fill(std::uint64_t ordinal, const WindowPtrs& out);

 private:
  void make_room(std::size_t opened);

  std::vector<std::int64_t> open_;  // the shards that are open, oldest at next_open_; -1: none
  std::size_t next_open_ = 0;
  std::int64_t sequence_;
  DocumentMask mask_;
  Order order_;
  std::uint64_t seed_;
  std::vector<ShardReader> shards_;
  std::vector<std::uint64_t> first_window_{0};  // of each shard; the last is the total
  std::vector<std::int32_t> buffer_;
};

}  // namespace trainyard::data
