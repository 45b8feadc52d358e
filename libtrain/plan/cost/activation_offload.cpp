// Which inputs of layers are on disk.
#include "libtrain/plan/cost/activation_offload.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/cost/activations.h"

#include <algorithm>
#include <numeric>

namespace trainyard::plan {

ActivationOffload::ActivationOffload(const ModelPart& part, const MicroShape& shape, const Placement& placement,
                                     const Recomputation& recompute, const std::vector<int>& slots) {
  if (placement.place == Place::device) return;
  place_ = placement.place;
  of_gpu_ = shape.device == base::DeviceKind::cuda;
  std::int64_t all = 0;
  for (const auto& items : part.chunks) {
    const auto of_chunk = layers_of(part.model, items);
    all += layers_.emplace_back(std::max<std::int64_t>(0, of_chunk.end - of_chunk.begin));
  }
  auto left = share_of(placement.share, recompute.full_layers(all));
  for (auto& layers : layers_) left -= layers = std::min(layers, left);
  bytes_ = shape.own_rows() * part.model.hidden * shape.element_bytes();
  slots_ = slots;
}

std::int64_t ActivationOffload::layers() const {
  return std::accumulate(layers_.begin(), layers_.end(), std::int64_t{0});
}

std::int64_t ActivationOffload::extents() const {
  std::int64_t n = 0;
  for (std::size_t c = 0; c < layers_.size(); ++c) n += layers_[c] * slots_[c];
  return n;
}

int ActivationOffload::extent(int chunk, std::int64_t layer, int slot) const {
  if (!any() || layer >= base::at(layers_, chunk)) return -1;
  std::int64_t before = 0;
  for (std::size_t c = 0; c < base::size(chunk); ++c) before += layers_[c] * slots_[c];
  return static_cast<int>(before + layer * base::at(slots_, chunk) + slot);
}

base::StorageTotals ActivationOffload::step_bytes(std::int64_t micro_batches) const {
  const auto bytes = on_disk() ? micro_batches * layers() * base::storage_bytes(bytes_) : 0;
  return {bytes, bytes};
}

LinkBytes ActivationOffload::step_link(std::int64_t micro_batches) const {
  const auto bytes = of_gpu_ ? micro_batches * layers() * bytes_ : 0;
  return {bytes, bytes};
}

std::vector<int> input_reads(const std::vector<Action>& actions, const ModelPart& part,
                             const ActivationOffload& offload) {
  std::vector<int> out;
  if (!offload.any()) return out;
  for (const auto& action : actions) {
    if (action.micro < 0 || action.kind != Action::Kind::backward) continue;
    const auto items = base::at(part.chunks, action.chunk);
    const auto layers = layers_of(part.model, items);
    const auto add = [&](std::int64_t item) {
      const auto of_item = layers_of(part.model, {item, item + 1});  // one layer or none
      if (of_item.begin == of_item.end) return;
      if (const auto e = offload.extent(action.chunk, of_item.begin - layers.begin, action.slot); e >= 0)
        out.push_back(e);
    };
    if (action.block >= 0) add(items.begin + action.block);
    else
      for (auto item = items.end; item-- > items.begin;) add(item);
  }
  return out;
}

}  // namespace trainyard::plan
