// ByteTrie: a tree of tokens by their bytes, as a double array. Finding a child takes one look.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::pieces {

class ByteTrie {
 public:
  // Of equal tokens the last one counts. Tokens without text are never found. Borrows nothing.
  explicit ByteTrie(std::span<const std::string> tokens);

  static constexpr std::uint32_t root = 0;
  // 0: there is none.
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const auto at = (units_[node].base & places) ^ byte;
    return units_[at].parent == node ? at : 0;
  }
  std::int32_t token(std::uint32_t node) const {  // -1: no token ends here
    return (units_[node].base & ends) == 0 ? -1 : tokens_[node];
  }

  // The node of a text; 0: no token begins with it.
  std::uint32_t find(std::string_view text, std::uint32_t from = root) const {
    auto node = from;
    for (const char c : text)
      if (node = child(node, static_cast<unsigned char>(c)); node == 0) break;
    return node;
  }

 private:
  struct Unit {
    std::uint32_t base = 0, parent = no_parent;  // base: with the bit `ends` where a token ends
  };
  static constexpr std::uint32_t ends = std::uint32_t{1} << 31, places = ends - 1;
  static constexpr std::uint32_t no_parent = ~std::uint32_t{0};
  class Builder;
  std::vector<Unit> units_;
  std::vector<std::int32_t> tokens_;  // by unit
};

}  // namespace trainyard::data::pieces
