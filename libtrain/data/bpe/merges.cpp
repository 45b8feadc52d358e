// Merges short pieces by looking at all neighbours, and long pieces with a heap.
#include "libtrain/data/bpe/merges.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace trainyard::data::bpe {

namespace {

constexpr std::size_t longest_short = 48;      // bytes; the heap is faster for longer pieces
constexpr std::size_t kept_memory = 64 << 10;  // in elements

}  // namespace

Merges::Merges(const Definition& definition) {
  std::array<bool, 256> seen{};
  for (std::size_t id = 0; id < definition.tokens.size(); ++id)
    if (const auto& token = definition.tokens[id]; token.size() == 1) {
      const auto byte = static_cast<unsigned char>(token[0]);
      bytes_[byte] = static_cast<std::int32_t>(id), seen[byte] = true;
    }
  TRAINYARD_ASSERT(std::all_of(seen.begin(), seen.end(), [](bool s) { return s; }), "a byte without a token");
  slots_.resize(std::bit_ceil(2 * definition.merges.size() + 2));
  shift_ = 64 - std::countr_zero(slots_.size());
  for (std::size_t rank = 0; rank < definition.merges.size(); ++rank) {
    const auto& m = definition.merges[rank];
    const auto pair = pair_of(m.left, m.right);
    auto at = slot_of(pair);
    while (slots_[at].pair != ~std::uint64_t{0} && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {pair, {static_cast<std::uint32_t>(rank), m.merged}};  // the last of equal merges counts
  }
  of_bytes_.reserve(256 * 256);
  for (const auto left : bytes_)
    for (const auto right : bytes_) of_bytes_.push_back(known(left, right));
}

void Merges::encode(std::string_view piece, Memory& memory, std::vector<std::int32_t>& out) const {
  if (piece.size() <= longest_short) encode_short(piece, out);
  else encode_long(piece, memory, out);
}

void Merges::encode_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::array<std::int32_t, longest_short + 1> ids;
  std::array<Known, longest_short + 1> pairs;  // pairs[i]: the merge of ids[i] and ids[i + 1]
  auto n = piece.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = bytes_[static_cast<unsigned char>(piece[i])];
  for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = known_of_bytes(piece[i], piece[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == none) break;
    ids[best] = pairs[best].merged;
    --n;
    for (auto i = best + 1; i < n; ++i) ids[i] = ids[i + 1], pairs[i - 1] = pairs[i];
    if (best + 1 < n) pairs[best] = known(ids[best], ids[best + 1]);
    if (best > 0) pairs[best - 1] = known(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
}

// A heap of (rank, position). An entry is valid only while the pair at its position still has its rank.
void Merges::encode_long(std::string_view piece, Memory& m, std::vector<std::int32_t>& out) const {
  const auto n = static_cast<std::int32_t>(piece.size());
  m.ids.resize(piece.size()), m.next.resize(piece.size()), m.before.resize(piece.size());
  m.heap.clear();
  const auto entry = [](std::uint32_t rank, std::int32_t at) {
    return std::uint64_t{rank} << 32 | static_cast<std::uint32_t>(at);
  };
  const auto index = [](std::int32_t i) { return base::size(i); };
  for (std::int32_t i = 0; i < n; ++i) {
    m.ids[index(i)] = bytes_[static_cast<unsigned char>(piece[index(i)])];
    m.next[index(i)] = i + 1, m.before[index(i)] = i - 1;
  }
  for (std::int32_t i = 0; i + 1 < n; ++i)
    if (const auto k = known_of_bytes(piece[index(i)], piece[index(i + 1)]); k.rank != none)
      m.heap.push_back(entry(k.rank, i));
  const std::greater<> later;
  std::make_heap(m.heap.begin(), m.heap.end(), later);
  const auto consider = [&](std::int32_t left, std::int32_t right) {
    if (const auto k = known(m.ids[index(left)], m.ids[index(right)]); k.rank != none) {
      m.heap.push_back(entry(k.rank, left));
      std::push_heap(m.heap.begin(), m.heap.end(), later);
    }
  };
  while (!m.heap.empty()) {
    std::pop_heap(m.heap.begin(), m.heap.end(), later);
    const auto rank = static_cast<std::uint32_t>(m.heap.back() >> 32);
    const auto at = static_cast<std::int32_t>(m.heap.back() & 0xFFFFFFFFu);
    m.heap.pop_back();
    const auto right = m.next[index(at)];
    if (m.ids[index(at)] < 0 || right >= n) continue;  // merged away, or the last one
    const auto k = known(m.ids[index(at)], m.ids[index(right)]);
    if (k.rank != rank) continue;
    const auto behind = m.next[index(right)];
    m.ids[index(at)] = k.merged, m.ids[index(right)] = -1;
    m.next[index(at)] = behind;
    if (behind < n) m.before[index(behind)] = at, consider(at, behind);
    if (const auto left = m.before[index(at)]; left >= 0) consider(left, at);
  }
  for (std::int32_t i = 0; i < n; i = m.next[index(i)]) out.push_back(m.ids[index(i)]);
  if (piece.size() > kept_memory) m = Memory();
}

}  // namespace trainyard::data::bpe
