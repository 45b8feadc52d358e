// Merges few symbols by looking at all neighbours, and many with a heap.
#include "libtrain/data/bpe/merge_table.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace trainyard::data::bpe {

namespace {

constexpr std::size_t kept_memory = 64 << 10;  // in elements

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges) {
  slots_.resize(std::bit_ceil(2 * merges.size() + 2));
  shift_ = 64 - std::countr_zero(slots_.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& m = merges[rank];
    const auto pair = pair_of(m.left, m.right);
    auto at = slot_of(pair);
    while (slots_[at].pair != ~std::uint64_t{0} && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {pair, {static_cast<std::uint32_t>(rank), m.merged}};  // the last of equal merges counts
  }
}

void MergeTable::merge_short(Short& symbols, std::size_t n, std::vector<std::int32_t>& out) const {
  auto& [ids, pairs] = symbols;
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

void MergeTable::merge(Memory& m, std::vector<std::int32_t>& out) const {
  if (m.ids.size() > longest_short) return merge_long(m, out);
  Short symbols;
  const auto n = m.ids.size();
  std::copy(m.ids.begin(), m.ids.end(), symbols.ids.begin());
  for (std::size_t i = 0; i + 1 < n; ++i) symbols.pairs[i] = known(m.ids[i], m.ids[i + 1]);
  merge_short(symbols, n, out);
}

// A heap of (rank, position). An entry is valid only while the pair at its position still has its rank.
void MergeTable::merge_long(Memory& m, std::vector<std::int32_t>& out) const {
  const auto n = static_cast<std::int32_t>(m.ids.size());
  m.next.resize(m.ids.size()), m.before.resize(m.ids.size());
  m.heap.clear();
  const auto entry = [](std::uint32_t rank, std::int32_t at) {
    return std::uint64_t{rank} << 32 | static_cast<std::uint32_t>(at);
  };
  const auto index = [](std::int32_t i) { return base::size(i); };
  for (std::int32_t i = 0; i < n; ++i) m.next[index(i)] = i + 1, m.before[index(i)] = i - 1;
  for (std::int32_t i = 0; i + 1 < n; ++i)
    if (const auto k = known(m.ids[index(i)], m.ids[index(i + 1)]); k.rank != none) m.heap.push_back(entry(k.rank, i));
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
  if (m.ids.size() > kept_memory) m = Memory();
}

}  // namespace trainyard::data::bpe
