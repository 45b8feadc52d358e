// TokenIndex: finds the id of a text that is a token.
#pragma once

#include "libtrain/data/bpe/piece_cache.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

// Open addressing, at most half full. The hash alone rejects most texts that are no token. Borrows the tokens.
class TokenIndex {
 public:
  // Tokens without text are never found.
  explicit TokenIndex(const std::vector<std::string>& tokens)
      : tokens_(tokens), slots_(std::bit_ceil(2 * tokens.size() + 2)) {
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id].empty()) continue;
      const auto h = hash(tokens[id]);
      auto at = h & (slots_.size() - 1);
      while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {static_cast<std::uint32_t>(h >> 32), static_cast<std::int32_t>(id)};
    }
  }
  std::optional<std::int32_t> find(std::string_view text) const {
    const auto h = hash(text);
    for (auto at = h & (slots_.size() - 1); slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == static_cast<std::uint32_t>(h >> 32) && base::at(tokens_, slots_[at].id) == text)
        return slots_[at].id;
    return std::nullopt;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };
  static std::uint64_t hash(std::string_view text) {
    std::uint64_t h = text.size();
    for (std::size_t i = 0; i < text.size(); i += 8) {
      h = (h ^ word_of(text.data() + i, text.size() - i)) * 0x9E3779B97F4A7C15ull;
      h ^= h >> 32;
    }
    return h * 0xC2B2AE3D27D4EB4Full;
  }
  const std::vector<std::string>& tokens_;
  std::vector<Slot> slots_;
};

}  // namespace trainyard::data::bpe
