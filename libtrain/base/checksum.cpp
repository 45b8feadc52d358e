// CRC32C by instruction or table, and the mixing function of the fingerprint.
#include "libtrain/base/checksum.h"

#include "libtrain/base/wide_vectors.h"

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
std::uint64_t word_at(const unsigned char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

[[gnu::target("sse4.2")]] std::uint32_t one_stream(const unsigned char* p, std::size_t n, std::uint32_t c) {
  std::uint64_t wide = c;
  for (; n >= 8; n -= 8, p += 8) wide = __builtin_ia32_crc32di(wide, word_at(p));
  c = static_cast<std::uint32_t>(wide);
  for (; n > 0; --n, ++p) c = __builtin_ia32_crc32qi(c, *p);
  return c;
}

constexpr std::size_t strip = 8192;  // bytes of each of three streams before they are joined

// How `strip` bytes of zeros change a checksum register. This is a linear map: the exclusive or of one table entry for
// each byte of the register.
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;
Shift make_shift() {
  static const std::array<unsigned char, strip> zeros{};
  Shift shift{};
  for (std::size_t byte = 0; byte < 4; ++byte)
    for (std::uint32_t v = 1; v < 256; ++v) {
      // The lowest bit of v. The entries of this bit and of the other bits of v exist already.
      const auto low = v & (~v + 1);
      shift[byte][v] =
          v == low ? one_stream(zeros.data(), strip, v << 8 * byte) : shift[byte][low] ^ shift[byte][v ^ low];
    }
  return shift;
}
std::uint32_t shifted(const Shift& shift, std::uint32_t c) {
  return shift[0][c & 255] ^ shift[1][c >> 8 & 255] ^ shift[2][c >> 16 & 255] ^ shift[3][c >> 24];
}

// The instruction takes three cycles, and a new one can begin in each cycle. So three independent streams keep it busy.
[[gnu::target("sse4.2")]] std::uint32_t by_instruction(const unsigned char* p, std::size_t n, std::uint32_t c) {
  static const Shift shift = make_shift();
  for (; n >= 3 * strip; n -= 3 * strip, p += 3 * strip) {
    std::uint64_t first = c, second = 0, third = 0;
    for (std::size_t i = 0; i < strip; i += 8) {
      first = __builtin_ia32_crc32di(first, word_at(p + i));
      second = __builtin_ia32_crc32di(second, word_at(p + strip + i));
      third = __builtin_ia32_crc32di(third, word_at(p + 2 * strip + i));
    }
    c = shifted(shift, shifted(shift, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second)) ^
        static_cast<std::uint32_t>(third);
  }
  return one_stream(p, n, c);
}
#endif

[[gnu::always_inline]] constexpr std::uint64_t mix(std::uint64_t index, std::uint64_t bits) {
  std::uint64_t h = index * 0x9E3779B97F4A7C15ull ^ (bits + 0xD1B54A32D192ED03ull);
  h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
  h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
  return h ^ (h >> 32);
}

template <class T> std::uint64_t sum_of(const void* data, std::int64_t count, std::uint64_t first) {
  const auto* p = static_cast<const unsigned char*>(data);
  return with_wide_vectors([=]() __attribute__((always_inline)) {
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      T bits;
      std::memcpy(&bits, p + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      sum += mix(first + static_cast<std::uint64_t>(i), bits);
    }
    return sum;
  });
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
