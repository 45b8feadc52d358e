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
    const auto at = units_[node].base ^ byte;
    return units_[at].parent == node ? at : 0;
  }
  std::int32_t token(std::uint32_t node) const { return units_[node].token; }  // -1: no token ends here

  // The node of a text; 0: no token begins with it.
  std::uint32_t find(std::string_view text, std::uint32_t from = root) const {
    auto node = from;
    for (const char c : text)
      if (node = child(node, static_cast<unsigned char>(c)); node == 0) break;
    return node;
  }

 private:
  struct Unit {
    std::uint32_t base = 0, parent = no_parent;
    std::int32_t token = -1;
  };
  static constexpr std::uint32_t no_parent = ~std::uint32_t{0};
  class Builder;
  std::vector<Unit> units_;
};

}  // namespace trainyard::data::pieces
