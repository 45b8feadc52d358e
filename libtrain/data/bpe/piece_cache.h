// PieceCache: the tokens of pieces that were encoded before, in a fixed amount of memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

// A text of up to eight bytes as a number, followed by zeros. It uses overlapping loads that read no byte outside the
// text.
inline std::uint64_t word_of(const char* text, std::size_t n) {
  const auto load = [&](auto word, std::size_t at) {
    std::memcpy(&word, text + at, sizeof word);
    return static_cast<std::uint64_t>(word);
  };
  static_assert(std::endian::native == std::endian::little);
  if (n >= 8) return load(std::uint64_t{}, 0);
  if (n >= 4) return load(std::uint32_t{}, 0) | load(std::uint32_t{}, n - 4) << (8 * (n - 4));
  if (n == 0) return 0;
  return load(std::uint8_t{}, 0) | load(std::uint8_t{}, n / 2) << (8 * (n / 2)) |
         load(std::uint8_t{}, n - 1) << (8 * (n - 1));
}

// Each piece has one place. Of the pieces that share a place, the newest stays. For one thread.
class PieceCache {
 public:
  static constexpr std::size_t longest = 31, most_tokens = 7;  // limits of a cached piece

  struct alignas(64) Entry {
    std::array<std::uint64_t, 4> key{};  // bytes of the piece, zeros, and its length in the last byte; 0: empty
    std::uint32_t count = 0;
    std::array<std::int32_t, most_tokens> tokens{};
  };

  // The piece's place. `hit`: its tokens are there; otherwise only its key is, and the caller adds the tokens. 1 <=
  // piece.size() <= longest.
  struct Place {
    Entry& entry;
    bool hit;
  };
  Place place(std::string_view piece) {
    const auto key = key_of(piece);
    auto& entry = entries_[static_cast<std::size_t>(hash(key) >> (64 - bits))];
    const bool hit =
        ((entry.key[0] ^ key[0]) | (entry.key[1] ^ key[1]) | (entry.key[2] ^ key[2]) | (entry.key[3] ^ key[3])) == 0;
    if (!hit) entry.key = key;
    return {entry, hit};
  }

 private:
  static constexpr int bits = 16;  // 2^16 entries: 4 MiB
  static std::array<std::uint64_t, 4> key_of(std::string_view piece) {
    const auto length = std::uint64_t{piece.size()} << 56;
    if (piece.size() <= 8) return {word_of(piece.data(), piece.size()), 0, 0, length};
    std::array<std::uint64_t, 4> key{};
    for (std::size_t i = 0; 8 * i < piece.size(); ++i) key[i] = word_of(piece.data() + 8 * i, piece.size() - 8 * i);
    key[3] |= length;
    return key;
  }
  static std::uint64_t hash(const std::array<std::uint64_t, 4>& key) {
    const auto low = key[0] * 0x9E3779B97F4A7C15ull + key[1] * 0xC2B2AE3D27D4EB4Full;
    const auto high = key[2] * 0x165667B19E3779F9ull + key[3] * 0xD6E8FEB86659FD93ull;
    return (low ^ low >> 32 ^ std::rotl(high, 17)) * 0xBF58476D1CE4E5B9ull;
  }
  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << bits);
};

}  // namespace trainyard::data::bpe
