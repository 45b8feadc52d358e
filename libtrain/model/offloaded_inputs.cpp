// Moves inputs of layers to a storage and back.
#include "libtrain/model/offloaded_inputs.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/trace_kinds.h"

#include <algorithm>
#include <utility>

namespace trainyard::model {

OffloadedInputs::OffloadedInputs(plan::ActivationOffload plan, base::Storage& storage, int first_extent,
                                 tensor::Arena& buffers)
    : plan_(std::move(plan)), storage_(storage), first_extent_(first_extent),
      not_read_(base::size(plan_.extents()), 0) {
  const auto each = base::storage_bytes(plan_.bytes()), all = plan_.buffer_bytes();
  auto* memory = static_cast<std::byte*>(buffers.allocate_bytes(all));
  TRAINYARD_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % base::storage_alignment == 0,
                   "buffers of {} bytes that direct transfers cannot use", all);
  storage_.use_memory({memory, base::size(all)});
  for (auto* of : {&writes_, &reads_})
    for (auto n = of == &writes_ ? plan_.writes() : plan_.reads(); n > 0; --n)
      of->push_back({std::exchange(memory, memory + each), 0});
}

void OffloadedInputs::set_reads(std::vector<int> reads) { order_ = std::move(reads); }

void OffloadedInputs::wait(Buffer& buffer) {
  if (buffer.ticket == 0) return;
  const base::TraceScope traced(base::traced::wait, "wait");
  const double start = base::steady_seconds();
  storage_.wait(std::exchange(buffer.ticket, 0));
  blocked_ += base::steady_seconds() - start;
}

void OffloadedInputs::begin_step() {
  for (auto& buffer : reads_) wait(buffer);
  std::fill(not_read_.begin(), not_read_.end(), 0);
  begun_ = released_ = 0;
}

void OffloadedInputs::write(tensor::Exec& exec, int extent, base::ConstView input) {
  TRAINYARD_ASSERT(input.bytes() == plan_.bytes(), "an input of {} bytes, planned with {}", input.bytes(),
                   plan_.bytes());
  auto& buffer = in_turn(writes_, written_++);
  wait(buffer);
  tensor::copy(exec, input, base::View(buffer.memory, input.dtype, {input.rows(), input.cols()}));
  buffer.ticket = storage_.write(first_extent_ + extent, 0, plan_.bytes(), buffer.memory);
  ++base::at(not_read_, extent);
  read_ahead();
}

// A read begins once its input was written: with several micro-batches in flight, backward passes of some come before
// forward passes of others.
void OffloadedInputs::read_ahead() {
  while (begun_ < std::ssize(order_) && begun_ - released_ < std::ssize(reads_)) {
    const auto extent = base::at(order_, begun_);
    if (base::at(not_read_, extent) == 0) return;
    --base::at(not_read_, extent);
    auto& buffer = in_turn(reads_, begun_++);
    buffer.ticket = storage_.read(first_extent_ + extent, 0, plan_.bytes(), buffer.memory);
  }
}

base::View OffloadedInputs::take(int extent, base::ConstView like) {
  TRAINYARD_ASSERT(released_ < begun_ && base::at(order_, released_) == extent,
                   "input {} is taken out of order: {} of {} reads begun, {} released", extent, begun_, order_.size(),
                   released_);
  auto& buffer = in_turn(reads_, released_);
  wait(buffer);
  return {buffer.memory, like.dtype, {like.rows(), like.cols()}};
}

void OffloadedInputs::release() {
  ++released_;
  read_ahead();
}

}  // namespace trainyard::model
