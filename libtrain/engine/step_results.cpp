// One block of memory, and the calls that fill it.
#include "libtrain/engine/step_results.h"

#include "kernels/square_sum/square_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

namespace trainyard::engine {

namespace {

constexpr std::int64_t aligned_words(std::int64_t bytes) { return base::aligned(bytes) / 8; }

base::View doubles(double* at, std::int64_t n, base::Device device) {
  return base::View(at, base::DType::f64, {n}, device);
}

}  // namespace

StepResults::StepResults(params::RankExecs& execs, const plan::BatchPlan& batch, comm::Communicator& results,
                         double clip, GateRecordShape gates, NonFinitePolicy non_finite)
    : execs_(execs), results_(results), batch_(batch), places_(batch_.places()), most_places_(places_), clip_(clip),
      gates_(gates), non_finite_(non_finite) {
  TRAINYARD_ASSERT(results.size() % batch_.data_ranks == 0, "{} ranks have losses, the micro-batches are those of {}",
                   results.size(), batch_.data_ranks);
  const auto own = aligned_words(own_count() * 8), all = aligned_words(own_count() * 8 * results.size()),
             limbs = std::int64_t{kernels::square_sum_limbs};
  const auto words = aligned_words((own + all + limbs + reported_words()) * 8);
  std::uint64_t* memory = nullptr;
  if (execs.compute.on_gpu()) {
    device_ = tensor::DeviceBuffer(execs.compute.device().index, words * 8, "reserving memory for results");
    pinned_ = tensor::PinnedBuffer(2 * reported_words() * 8);
    memory = device_.data<std::uint64_t>();
  } else {
    host_.resize(base::size(words));
    memory = host_.data();
    read_.resize(base::size(2 * reported_words()));
  }
  own_ = reinterpret_cast<double*>(memory);
  all_ = results.size() == 1 ? own_ : reinterpret_cast<double*>(memory + own);
  limbs_ = reinterpret_cast<std::int64_t*>(memory + own + all);
  records_ = limbs_ + limbs;
  numbers_ = reinterpret_cast<kernels::StepNumbers*>(records_ + gates_.count());
  kernels::StepNumbers first;
  tensor::copy(execs.compute, base::View(&first, base::DType::u8, {sizeof first}),
               base::View(numbers_, base::DType::u8, {sizeof first}, execs.compute.device()));
  execs.compute.synchronize();
}

StepResults::~StepResults() {
  if (!device_) return;
  try {
    execs_.compute.synchronize();
  } catch (const base::Error&) {
    // The device failed. Whoever waited for it got the error.
  }
}

base::View StepResults::pair(std::int64_t place, int which) const {
  TRAINYARD_ASSERT(place >= 0 && place < places_, "place {} of {}", place, places_);
  return doubles(own_ + 2 * place + which, 1, execs_.compute.device());
}

void StepResults::divide(const plan::BatchPlan& batch) {
  TRAINYARD_ASSERT(batch.places() <= most_places_ && batch.data_ranks == batch_.data_ranks,
                   "{} places of {} ranks, and there is room for {} of {}", batch.places(), batch.data_ranks,
                   most_places_, batch_.data_ranks);
  batch_ = batch, places_ = batch.places();
}

void StepResults::begin() {
  const auto device = execs_.compute.device();
  tensor::clear(execs_.compute, doubles(own_, own_count(), device));
  if (gates_.rows > 0)
    tensor::clear(execs_.compute, base::View(records_, base::DType::i64, {gates_.rows, gates_.width}, device));
}

base::View StepResults::gate_records() const {
  if (gates_.rows == 0 || execs_.world.coordinate(plan::Axis::tensor) > 0) return {};
  return base::View(records_, base::DType::i64, {gates_.rows, gates_.width}, execs_.compute.device());
}

base::View StepResults::sums() const {
  return base::View(limbs_, base::DType::i64, {kernels::square_sum_limbs + gates_.count()}, execs_.compute.device());
}

std::int64_t StepResults::reported_words() const {
  return gates_.count() + static_cast<std::int64_t>(sizeof(kernels::StepNumbers) / sizeof(std::uint64_t));
}

void StepResults::agree(std::span<const base::ConstView> gradients, double loss_scale, const OutlierLimits& limits,
                        const kernels::FixedPointSum* counted_before) {
  const auto device = execs_.compute.device();
  const base::View limbs(limbs_, base::DType::i64, {kernels::square_sum_limbs}, device);
  kernels::square_sum(execs_.compute, gradients, limbs);
  if (counted_before != nullptr) {  // both have digits below 2^32, so 2^19 ranks cannot overflow
    auto all = *counted_before;
    const auto here = base::View::of(all.limbs.data(), {std::ssize(all.limbs)});
    kernels::FixedPointSum counted_now;
    tensor::copy(execs_.compute, limbs, base::View::of(counted_now.limbs.data(), {std::ssize(all.limbs)}));
    execs_.compute.synchronize();
    for (std::size_t i = 0; i < all.limbs.size(); ++i) all.limbs[i] += counted_now.limbs[i];
    tensor::copy(execs_.compute, here, limbs);
    execs_.compute.synchronize();
  }
  if (results_.size() > 1) {
    execs_.communication.wait(execs_.compute.record());
    results_.all_gather(execs_.communication, doubles(own_, own_count(), device),
                        doubles(all_, own_count() * results_.size(), device));
    results_.all_reduce(execs_.communication, sums(), comm::Reduction::sum);
    execs_.join(execs_.communication.record());
  }
  kernels::StepNumbersArgs args;
  args.losses = all_, args.places = places_, args.micros = batch_.micros();
  args.local_accumulation = batch_.local_accumulation;
  args.rows = execs_.world.topology.rows_with_losses(results_.size());
  args.limbs = limbs_, args.clip = clip_, args.loss_scale = loss_scale, args.out = numbers_;
  args.lasting = non_finite_ == NonFinitePolicy::stop;
  args.most_norm = limits.most_norm, args.most_loss = limits.most_loss;
  kernels::step_numbers(execs_.compute, args);
}

void StepResults::send() {
  TRAINYARD_ASSERT(sends_ - takes_ < 2, "{} results wait to be read", sends_ - takes_);
  const auto at = base::size(sends_++ % 2);
  tensor::copy(execs_.compute, base::View(records_, base::DType::i64, {reported_words()}, execs_.compute.device()),
               base::View(reported(at), base::DType::i64, {reported_words()}));
  sent_[at] = execs_.compute.record();
}

std::uint64_t* StepResults::reported(std::size_t at) {
  return (pinned_ ? pinned_.data<std::uint64_t>() : read_.data()) + static_cast<std::int64_t>(at) * reported_words();
}

StepResults::Collected StepResults::take() {
  TRAINYARD_ASSERT(takes_ < sends_, "results of step {} of {}", takes_, sends_);
  const auto at = base::size(takes_++ % 2);
  sent_[at].wait();
  const auto* words = reported(at);
  return {*reinterpret_cast<const kernels::StepNumbers*>(words + gates_.count()),
          {reinterpret_cast<const std::int64_t*>(words), base::size(gates_.count())}};
}

std::vector<double> StepResults::own_losses() {
  std::vector<double> out(base::size(own_count()));
  tensor::copy(execs_.compute, doubles(own_, own_count(), execs_.compute.device()),
               doubles(out.data(), own_count(), {}));
  execs_.compute.synchronize();
  return out;
}

}  // namespace trainyard::engine
