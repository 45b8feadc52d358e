// Plan numbers of the ordered reduction (decision 1): what one call stages and sends.
#pragma once

#include <cstdint>

namespace trainyard::comm {

// Staging of one ordered_reduce_scatter over n ranks: one shard for each contributor, 64-byte aligned as an arena hands
// it out. A group of one rank folds straight from its input.
constexpr std::int64_t ordered_staging_bytes(std::int64_t shard_elements, std::int64_t element_bytes, int ranks) {
  return ranks > 1 ? (ranks * shard_elements * element_bytes + 63) / 64 * 64 : 0;
}
// What a contributing rank sends (a rank at or above `contributors` sends nothing), in n - 1 messages.
constexpr std::int64_t ordered_sent_bytes(std::int64_t shard_elements, std::int64_t element_bytes, int ranks) {
  return (ranks - 1) * shard_elements * element_bytes;
}

}  // namespace trainyard::comm
