// MergeTable: merges symbols into tokens, by the rank of each merge.
#pragma once

#include "libtrain/data/bpe/definition.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::data::bpe {

// Of all neighbours with a known merge, the pair of lowest rank is merged first; of equal ranks, the first in the text.
// This repeats until no merge is known. It takes n log n steps for n symbols.
class MergeTable {
 public:
  explicit MergeTable(std::span<const Merge> merges);

  struct Known {
    std::uint32_t rank = none;
    std::int32_t merged = 0;
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  Known known(std::int32_t left, std::int32_t right) const {
    const auto pair = pair_of(left, right);
    for (auto at = slot_of(pair);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].pair == pair) return slots_[at].known;
      if (slots_[at].pair == ~std::uint64_t{0}) return {};
    }
  }

  static constexpr std::size_t longest_short = 48;  // symbols; the heap is faster for longer pieces
  struct Short {
    std::array<std::int32_t, longest_short + 1> ids;
    std::array<Known, longest_short + 1> pairs;  // pairs[i]: the merge of ids[i] and ids[i + 1]
  };
  // Merges the first n symbols, whose pairs are known.
  void merge_short(Short& symbols, std::size_t n, std::vector<std::int32_t>& append_to) const;

  // Memory of one thread. It keeps what usual pieces need and frees the rest.
  struct Memory {
    std::vector<std::int32_t> ids, next, before;
    std::vector<std::uint64_t> heap;
  };
  // Merges memory.ids, of any number.
  void merge(Memory& memory, std::vector<std::int32_t>& append_to) const;

 private:
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
  void merge_long(Memory& memory, std::vector<std::int32_t>& out) const;

  std::vector<Slot> slots_;  // open addressing, at most half full
  int shift_ = 0;
};

}  // namespace trainyard::data::bpe
