// Which layers share tile lists, and how much room the lists take.
#include "libtrain/plan/cost/attention_lists.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/spec/tile_list.h"

#include <algorithm>
#include <vector>

namespace trainyard::plan {

namespace {

bool draws(const AttentionConfig& a) {
  const auto& layout = a.layout.at(0);
  return !a.shared_draws && ((layout == "bigbird" && a.random != 0) || (layout == "variable" && a.random > 0));
}

// Calls visit(layer, the model as the layer sees it) for the layers of the part that are sparse.
template <class Visit> void over_sparse_layers(const ModelPart& part, const Visit& visit) {
  for (const auto& segment : segments(part))
    if (segment.part == Part::layers && is_sparse(segment.model))
      for (std::int64_t i = 0; i < segment.times; ++i) visit(segment.first + i, segment.model);
}

}  // namespace

std::map<std::int64_t, std::int64_t> list_of_layer(const ModelPart& part) {
  std::map<std::int64_t, std::int64_t> first_of;
  std::vector<std::pair<AttentionConfig, std::int64_t>> known;
  over_sparse_layers(part, [&](std::int64_t layer, const ModelConfig& m) {
    auto blocks = m.attention;
    blocks.window_tokens = {0};  // lists say nothing of windows
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& k) { return !draws(blocks) && k.first == blocks; });
    first_of[layer] = same == known.end() ? layer : same->second;
    if (same == known.end()) known.emplace_back(std::move(blocks), layer);
  });
  return first_of;
}

std::int64_t ListRoom::bytes() const {
  return base::aligned(4 * begins) + base::aligned(4 * entries) + base::aligned(2 * entries);
}

ListRoom list_room(const ModelConfig& m, std::int64_t sequence) {
  const auto block = m.attention.block, n = (sequence + block - 1) / block,
             across = std::max<std::int64_t>(1, block / attention_tile),
             tiles = (n * block + attention_tile - 1) / attention_tile;
  return {(m.attention.per_head ? m.heads : 1) * tiles + 1, block_count(m, sequence) * across * across};
}

std::int64_t attention_list_bytes(const ModelPart& part, std::int64_t sequence) {
  std::int64_t bytes = 0;
  const auto lists = list_of_layer(part);
  AttentionConfig asked;  // of the layer before: it has as many blocks, whatever is drawn
  std::int64_t room = 0;
  over_sparse_layers(part, [&](std::int64_t layer, const ModelConfig& m) {
    if (lists.at(layer) != layer) return;
    if (room == 0 || !(asked == m.attention)) room = 2 * list_room(m, sequence).bytes();
    asked = m.attention;
    bytes += room;
  });
  return bytes;
}

}  // namespace trainyard::plan
