// Sizes of the ordered reduction (decision 1) for plans: what one call stages and sends.
#pragma once

#include <cstdint>

namespace trainyard::comm {

// Bytes of staging of one ordered_reduce_scatter over n ranks: one shard for each rank, 64-byte aligned as an arena
// allocates it. A group of one rank adds straight from its input.
constexpr std::int64_t ordered_staging_bytes(std::int64_t shard_elements, std::int64_t element_bytes, int ranks) {
  return ranks > 1 ? (ranks * shard_elements * element_bytes + 63) / 64 * 64 : 0;
}
// Bytes that a contributing rank sends, in n - 1 messages. A rank at or above `contributors` sends nothing.
constexpr std::int64_t ordered_sent_bytes(std::int64_t shard_elements, std::int64_t element_bytes, int ranks) {
  return (ranks - 1) * shard_elements * element_bytes;
}

}  // namespace trainyard::comm
