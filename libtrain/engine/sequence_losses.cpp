// Two steps may be under way, so copies alternate between two places.
#include "libtrain/engine/sequence_losses.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

namespace trainyard::engine {

SequenceLosses::SequenceLosses(params::RankExecs& execs, const plan::BatchPlan& largest)
    : execs_(execs), places_(largest.places()), micro_batch_(largest.micro_batch) {
  for (auto& pairs : pairs_) pairs.resize(base::size(2 * count()));
  if (execs.compute.on_gpu()) {
    device_ = tensor::DeviceBuffer(execs.compute.device().index, count() * 8, "reserving memory for losses");
    pinned_ = tensor::PinnedBuffer(2 * count() * 8);
    losses_ = device_.data<double>();
    return;
  }
  host_.resize(base::size(count()));
  for (auto& read : read_) read.resize(base::size(count()));
  losses_ = host_.data();
}

void SequenceLosses::begin() {
  tensor::clear(execs_.compute, base::View(losses_, base::DType::f64, {count()}, execs_.compute.device()));
  auto& pairs = pairs_[base::size(sends_ % 2)];
  std::fill(pairs.begin(), pairs.end(), 0);
}

void SequenceLosses::enter(std::int64_t place, const model::MicroBatch& micro) {
  auto& pairs = pairs_[base::size(sends_ % 2)];
  for (std::size_t s = 0; s < micro.counted_of.size(); ++s)
    pairs[2 * (base::size(place * micro_batch_) + s) + 1] = static_cast<double>(micro.counted_of[s]);
}

base::View SequenceLosses::of(std::int64_t place) {
  TRAINYARD_ASSERT(place >= 0 && place < places_, "place {} of {}", place, places_);
  return base::View(losses_ + place * micro_batch_, base::DType::f64, {micro_batch_}, execs_.compute.device());
}

void SequenceLosses::send() {
  TRAINYARD_ASSERT(sends_ - takes_ < 2, "{} steps wait to be read", sends_ - takes_);
  const auto at = base::size(sends_++ % 2);
  auto* to = pinned_ ? pinned_.data<double>() + static_cast<std::int64_t>(at) * count() : read_[at].data();
  tensor::copy(execs_.compute, base::View(losses_, base::DType::f64, {count()}, execs_.compute.device()),
               base::View(to, base::DType::f64, {count()}));
  sent_[at] = execs_.compute.record();
}

std::span<const double> SequenceLosses::take() {
  TRAINYARD_ASSERT(takes_ < sends_, "losses of step {} of {}", takes_, sends_);
  const auto at = base::size(takes_++ % 2);
  sent_[at].wait();
  const auto* losses = pinned_ ? pinned_.data<double>() + static_cast<std::int64_t>(at) * count() : read_[at].data();
  for (std::size_t i = 0; i < base::size(count()); ++i) pairs_[at][2 * i] = losses[i];
  return pairs_[at];
}

}  // namespace trainyard::engine
