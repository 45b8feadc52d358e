// PieceCache: the tokens of pieces that were seen before, in a fixed amount of memory.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

// Each piece has one place, and the newest of those that share one stays. For one thread.
class PieceCache {
 public:
  static constexpr std::size_t longest = 30, most_tokens = 8;  // of what is kept

  struct alignas(64) Entry {
    std::uint8_t length = 0, count = 0;  // of bytes, of tokens; a length of 0 is an empty place
    std::array<char, longest> text{};
    std::array<std::int32_t, most_tokens> tokens{};
  };

  // The piece's place; `hit` says whether its tokens are there. 1 <= piece.size() <= longest.
  struct Place {
    Entry& entry;
    bool hit;
  };
  Place place(std::string_view piece) {
    std::array<char, longest> text{};
    std::memcpy(text.data(), piece.data(), piece.size());
    auto& entry = entries_[hash(text) >> (64 - bits)];
    const bool hit = entry.length == piece.size() && std::memcmp(entry.text.data(), text.data(), longest) == 0;
    if (!hit) entry.text = text;
    return {entry, hit};
  }

 private:
  static constexpr int bits = 16;  // 4 MiB
  static std::uint64_t hash(const std::array<char, longest>& text) {
    std::uint64_t h = 0;
    for (std::size_t i = 0; i < longest; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, i + 8 <= longest ? 8 : longest - i);
      h = (h ^ word) * 0x9E3779B97F4A7C15ull;
      h ^= h >> 29;
    }
    return h * 0xBF58476D1CE4E5B9ull;
  }
  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << bits);
};

}  // namespace trainyard::data::bpe
