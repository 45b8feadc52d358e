// CRC32C by instruction or table, and the fingerprint's mixing function.
#include "libtrain/base/checksum.h"

#include <array>
#include <cstring>

namespace trainyard::base {

namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1u) ? 0x82F63B78u : 0u);
    table[i] = c;
  }
  return table;
}
constexpr auto table = make_table();

std::uint32_t by_table(const unsigned char* p, std::size_t n, std::uint32_t c) {
  for (std::size_t i = 0; i < n; ++i) c = table[(c ^ p[i]) & 0xffu] ^ (c >> 8);
  return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const unsigned char* p, std::size_t n, std::uint32_t c) {
  std::uint64_t wide = c;
  for (; n >= 8; n -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  c = static_cast<std::uint32_t>(wide);
  for (; n > 0; --n, ++p) c = __builtin_ia32_crc32qi(c, *p);
  return c;
}
#endif

constexpr std::uint64_t mix(std::uint64_t index, std::uint64_t bits) {
  std::uint64_t h = index * 0x9E3779B97F4A7C15ull ^ (bits + 0xD1B54A32D192ED03ull);
  h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
  h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
  return h ^ (h >> 32);
}

template <class T> std::uint64_t sum_of(const void* data, std::int64_t count, std::uint64_t first) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, p + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    sum += mix(first + static_cast<std::uint64_t>(i), bits);
  }
  return sum;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous) {
  const auto* p = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~by_instruction(p, bytes, ~previous);
#endif
  return ~by_table(p, bytes, ~previous);
}

std::uint64_t fingerprint(const void* data, std::int64_t count, int element_bytes, std::uint64_t first_index) {
  switch (element_bytes) {
    case 1: return sum_of<std::uint8_t>(data, count, first_index);
    case 2: return sum_of<std::uint16_t>(data, count, first_index);
    case 4: return sum_of<std::uint32_t>(data, count, first_index);
    default: return sum_of<std::uint64_t>(data, count, first_index);
  }
}

}  // namespace trainyard::base
