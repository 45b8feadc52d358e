// Merges: turns the bytes of a piece into tokens, by the rank of each merge.
#pragma once

#include "libtrain/data/bpe/definition.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

// Of all neighbours with a known merge, the pair of lowest rank is merged first; of equal ranks, the first in the text.
// This repeats until no merge is known. It takes n log n steps for n bytes.
class Merges {
 public:
  // Every byte must be a token of `definition`.
  explicit Merges(const Definition& definition);

  // Memory of one thread. It keeps what usual pieces need and frees the rest.
  struct Memory {
    std::vector<std::int32_t> ids, next, before;
    std::vector<std::uint64_t> heap;
  };
  void encode(std::string_view piece, Memory& memory, std::vector<std::int32_t>& append_to) const;

 private:
  struct Known {
    std::uint32_t rank = none;
    std::int32_t merged = 0;
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Slot {
    std::uint64_t pair = ~std::uint64_t{0};
    Known known;
  };
  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t pair) const {
    return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15ull) >> shift_);
  }
  Known known(std::int32_t left, std::int32_t right) const {
    const auto pair = pair_of(left, right);
    for (auto at = slot_of(pair);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].pair == pair) return slots_[at].known;
      if (slots_[at].pair == ~std::uint64_t{0}) return {};
    }
  }
  Known known_of_bytes(char left, char right) const {
    return of_bytes_[static_cast<unsigned char>(left) * std::size_t{256} + static_cast<unsigned char>(right)];
  }
  void encode_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void encode_long(std::string_view piece, Memory& memory, std::vector<std::int32_t>& out) const;

  std::array<std::int32_t, 256> bytes_{};  // the token of each byte
  std::vector<Known> of_bytes_;            // for two adjacent bytes, as at the start of every piece
  std::vector<Slot> slots_;                // open addressing, at most half full
  int shift_ = 0;
};

}  // namespace trainyard::data::bpe
