// Makes tile lists from block layouts, in the memory of the device.
#include "libtrain/model/attention_lists.h"

#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/tile_list.h"

#include <algorithm>

namespace trainyard::model {

namespace {

// Allocates room for `room` elements and fills the first of them with `values`.
template <class T> const T* kept(tensor::Exec& exec, const std::vector<T>& values, std::int64_t room) {
  const auto n = static_cast<std::int64_t>(values.size());
  TRAINYARD_ASSERT(n <= room, "{} entries of a list in room for {}", n, room);
  const auto bytes = room * static_cast<std::int64_t>(sizeof(T));
  auto* const at = static_cast<T*>(exec.scratch().allocate_bytes(bytes));
  if (n > 0)
    tensor::copy(exec, base::View::of(values.data(), {n}),
                 base::View(at, base::DTypeOf<T>::value, {n}, exec.scratch().device()));
  return at;
}

}  // namespace

AttentionLists::AttentionLists(const plan::ModelPart& part, std::int64_t sequence, tensor::Exec& exec)
    : first_of_(plan::list_of_layer(part)) {
  for (const auto& [layer, first] : first_of_) {
    if (layer != first) continue;
    const auto seen = plan::layer_model(part.model, layer);
    const auto room = plan::list_room(seen, sequence);
    const auto by_queries = plan::tiles_of(plan::block_layout(seen, layer, sequence));
    const auto by_keys = plan::by_keys(by_queries);
    const auto put = [&](const plan::TileList& list) {
      kernels::TileView view;
      view.tiles = list.tiles, view.heads = list.heads;
      view.begin = kept(exec, list.begin, room.begins);
      view.other = kept(exec, list.other, room.entries);
      view.parts = kept(exec, list.parts, room.entries);
      exec.synchronize();
      return view;
    };
    lists_[layer] = {put(by_queries), put(by_keys)};
  }
}

kernels::Visibility AttentionLists::of(std::int64_t layer, std::int64_t first_head) const {
  const auto& list = lists_.at(first_of_.at(layer));
  kernels::Visibility out;
  out.by_queries = list.by_queries, out.by_keys = list.by_keys, out.first_head = first_head;
  return out;
}

}  // namespace trainyard::model
