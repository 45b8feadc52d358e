// CRC32C (Castagnoli) of bytes, and the additive fingerprint of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainyard::base {

// CRC32C as in iSCSI (RFC 3720): polynomial 0x1EDC6F41 reflected, initial and final complement. crc32c(b, m, crc32c(a,
// n)) is the checksum of a followed by b. Uses the SSE4.2 instruction where the machine has it.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous = 0);

// Fingerprint of a logical tensor: the sum modulo 2^64 of mix(logical index, bits) over its elements. The bits are the
// element's bytes, zero-extended. The fingerprints of disjoint parts add up to the fingerprint of the whole tensor. So
// no parallel layout changes it.
std::uint64_t fingerprint(const void* data, std::int64_t count, int element_bytes, std::uint64_t first_index);

}  // namespace trainyard::base
