// Places the children of each node where all their places are free.
#include "libtrain/data/pieces/byte_trie.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::data::pieces {

namespace {

constexpr std::uint32_t block = 256;
constexpr int most_tries = 64;  // places that are looked at before a new block begins

}  // namespace

class ByteTrie::Builder {
 public:
  Builder(std::span<const std::string> tokens, ByteTrie& trie)
      : tokens_(tokens), units_(trie.units_), ends_(trie.tokens_) {
    for (std::size_t id = 0; id < tokens.size(); ++id)
      if (!tokens[id].empty()) order_.push_back(static_cast<std::int32_t>(id));
    std::stable_sort(order_.begin(), order_.end(),
                     [&](auto a, auto b) { return base::at(tokens_, a) < base::at(tokens_, b); });
    add_block();
    take(0);
    units_[0].parent = no_parent;
    // Tokens of most bytes are few: the depth of this recursion is the length of a token, so it is a list instead.
    work_.push_back({0, order_.size(), 0, root});
    while (!work_.empty()) {
      const auto next = work_.back();
      work_.pop_back();
      place(next);
    }
  }

 private:
  // The tokens order_[begin, end) share `depth` bytes, which lead to `node`.
  struct Branch {
    std::size_t begin, end, depth;
    std::uint32_t node;
  };

  void place(Branch b) {
    while (b.begin < b.end && text(b.begin).size() == b.depth) set_token(b.node, order_[b.begin++]);
    if (b.begin == b.end) return;
    children_.clear();
    for (auto at = b.begin; at < b.end; ++at)
      if (const auto byte = static_cast<unsigned char>(text(at)[b.depth]);
          children_.empty() || children_.back().byte != byte)
        children_.push_back({byte, at});
    const auto base = free_base();
    units_[b.node].base |= base;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const auto at = base ^ children_[i].byte;
      take(at);
      units_[at].parent = b.node;
      work_.push_back({children_[i].begin, i + 1 < children_.size() ? children_[i + 1].begin : b.end, b.depth + 1, at});
    }
  }

  void set_token(std::uint32_t node, std::int32_t token) {
    units_[node].base |= ends;
    ends_[node] = token;
  }

  std::string_view text(std::size_t at) const { return base::at(tokens_, order_[at]); }

  std::uint32_t free_base() {
    int tries = 0;
    for (auto at = first_free_; at != no_parent && tries < most_tries; at = next_free_[at], ++tries) {
      const auto base = at ^ children_[0].byte;
      if (std::all_of(children_.begin(), children_.end(), [&](const Child& c) { return !taken_[base ^ c.byte]; }))
        return base;
    }
    return add_block();
  }

  // Free places are a list, with the newest block in front: its places are the emptiest.
  std::uint32_t add_block() {
    const auto begin = static_cast<std::uint32_t>(units_.size());
    TRAINYARD_ASSERT(begin < places - block, "{} places of tokens", begin);
    units_.resize(begin + block), ends_.resize(begin + block);
    taken_.resize(begin + block);
    next_free_.resize(begin + block), before_free_.resize(begin + block);
    for (auto at = begin + block; at-- > begin;) {
      next_free_[at] = first_free_, before_free_[at] = no_parent;
      if (first_free_ != no_parent) before_free_[first_free_] = at;
      first_free_ = at;
    }
    return begin;
  }

  void take(std::uint32_t at) {
    taken_[at] = true;
    const auto next = next_free_[at], before = before_free_[at];
    if (next != no_parent) before_free_[next] = before;
    if (before != no_parent) next_free_[before] = next;
    else first_free_ = next;
  }

  struct Child {
    unsigned char byte;
    std::size_t begin;
  };
  std::span<const std::string> tokens_;
  std::vector<Unit>& units_;
  std::vector<std::int32_t>& ends_;
  std::vector<std::int32_t> order_;
  std::vector<Branch> work_;
  std::vector<Child> children_;
  std::vector<bool> taken_;
  std::vector<std::uint32_t> next_free_, before_free_;
  std::uint32_t first_free_ = no_parent;
};

ByteTrie::ByteTrie(std::span<const std::string> tokens) { Builder(tokens, *this); }

}  // namespace trainyard::data::pieces
