// Reads whole weights into memory.
#include "tools/generate/kept_weights.h"

#include "libtrain/checkpoint/read_sums.h"

#include <stdexcept>

namespace trainyard::generate {

KeptWeights::KeptWeights(checkpoint::Reader& reader, const plan::ModelConfig& model, int threads)
    : flat_groups_(plan::flat_groups(model)) {
  checkpoint::ReadSums sums(reader, threads);
  std::int64_t bytes = 0;
  for (const auto& flat_group : flat_groups_) {
    layouts_.push_back(plan::layout(flat_group, 1));
    bytes += base::aligned(layouts_.back().padded * 4);
  }
  arena_ = std::make_unique<tensor::Arena>(tensor::Category::parameters, bytes);
  for (std::size_t u = 0; u < flat_groups_.size(); ++u) {
    flat_.push_back(arena_->allocate(base::DType::f32, {layouts_[u].padded}));
    reader.read_shard(checkpoint::Kind::model, flat_groups_[u], plan::Topology(), 0, flat_.back().ptr<float>());
    sums.add(checkpoint::Kind::model, flat_groups_[u], plan::Topology(), 0, flat_.back().ptr<float>());
  }
  sums.require();
}

base::View KeptWeights::weight(plan::Occurrence occurrence, int slot) {
  const auto u = static_cast<std::size_t>(occurrence.flat_group), s = static_cast<std::size_t>(slot);
  const auto& shape = flat_groups_[u].parameters[s].stored;
  float* p = flat_[u].ptr<float>() + layouts_[u].offsets[s];
  return shape.size() == 1 ? base::View::of(p, {shape[0]}) : base::View::of(p, {shape[0], shape[1]});
}

void KeptWeights::no_gradients() { throw std::logic_error("weights for generation take no gradients"); }

}  // namespace trainyard::generate
