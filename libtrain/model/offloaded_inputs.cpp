// Moves inputs of layers to a storage and back.
#include "libtrain/model/offloaded_inputs.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/trace_kinds.h"

#include <algorithm>
#include <utility>

namespace trainyard::model {

using Stream = params::OffloadLink::Stream;

OffloadedInputs::OffloadedInputs(plan::ActivationOffload plan, base::Storage& storage, int first_extent,
                                 tensor::Arena& buffers)
    : plan_(std::move(plan)), not_read_(base::size(plan_.extents()), 0) {
  make_buffers(allocated(buffers), base::storage_bytes(plan_.bytes()));
  use_storage(storage, first_extent, writes_[0].memory);
}

OffloadedInputs::OffloadedInputs(plan::ActivationOffload plan, const OfGpu& of, tensor::Arena& host)
    : plan_(std::move(plan)), written_to_host_(base::size(plan_.extents())), not_read_(base::size(plan_.extents()), 0) {
  take_of_gpu(of);
  host_ = static_cast<std::byte*>(host.allocate_bytes(plan_.host_bytes()));
  pin(host_, plan_.host_bytes());
}

OffloadedInputs::OffloadedInputs(plan::ActivationOffload plan, base::Storage& storage, int first_extent,
                                 const OfGpu& of, tensor::Arena& passages)
    : plan_(std::move(plan)), not_read_(base::size(plan_.extents()), 0) {
  take_of_gpu(of);
  auto* memory = allocated(passages);
  use_storage(storage, first_extent, memory);
  pin(memory, plan_.buffer_bytes());
  for (auto* buffers : {&writes_, &reads_})
    for (auto& buffer : *buffers) buffer.passage = std::exchange(memory, memory + base::storage_bytes(plan_.bytes()));
}

std::byte* OffloadedInputs::allocated(tensor::Arena& buffers) const {
  auto* memory = static_cast<std::byte*>(buffers.allocate_bytes(plan_.buffer_bytes()));
  TRAINYARD_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % base::storage_alignment == 0,
                   "buffers of {} bytes that direct transfers cannot use", plan_.buffer_bytes());
  return memory;
}

void OffloadedInputs::use_storage(base::Storage& storage, int first_extent, std::byte* memory) {
  storage_ = &storage, first_extent_ = first_extent;
  storage_->use_memory({memory, base::size(plan_.buffer_bytes())});
}

void OffloadedInputs::take_of_gpu(const OfGpu& of) {
  link_ = &of.link, gpu_ = &of.gpu;
  device_.emplace(of.buffers, plan_.device_buffer_bytes());
  make_buffers(static_cast<std::byte*>(device_->allocate_bytes(plan_.device_buffer_bytes())),
               base::aligned(plan_.bytes()));
}

void OffloadedInputs::pin(std::byte* memory, std::int64_t bytes) {
  if (const char* refusal = pinned_.pin(memory, bytes))
    base::log_warning("{} bytes of inputs of layers cannot be pinned ({}): copies will hold up the GPU", bytes,
                      refusal);
}

void OffloadedInputs::make_buffers(std::byte* memory, std::int64_t each) {
  for (auto* of : {&writes_, &reads_})
    for (auto n = of == &writes_ ? plan_.writes() : plan_.reads(); n > 0; --n)
      of->push_back({std::exchange(memory, memory + each)});
}

base::View OffloadedInputs::in(const Buffer& buffer) const {
  return {buffer.memory, base::DType::u8, {plan_.bytes()}, gpu_->device()};
}

base::View OffloadedInputs::on_host(int extent) const {
  return {host_ + extent * base::aligned(plan_.bytes()), base::DType::u8, {plan_.bytes()}};
}

base::View OffloadedInputs::passage_of(const Buffer& buffer) const {
  return {buffer.passage, base::DType::u8, {plan_.bytes()}};
}

void OffloadedInputs::set_reads(std::vector<int> reads) { order_ = std::move(reads); }

template <class Wait> void OffloadedInputs::blocked(const Wait& wait) {
  const base::TraceScope traced(base::traced::wait, "wait");
  const double start = base::steady_seconds();
  wait();
  blocked_ += base::steady_seconds() - start;
}

void OffloadedInputs::wait(Buffer& buffer) {
  if (gpu_ != nullptr && buffer.used.state() != nullptr) gpu_->wait(std::exchange(buffer.used, {}));
  if (buffer.ticket == 0) return;
  blocked([&] { storage_->wait(std::exchange(buffer.ticket, 0)); });
}

void OffloadedInputs::write_passages() {
  // The one that was copied first is the next in turn.
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    auto& buffer = in_turn(writes_, written_ + static_cast<std::int64_t>(i));
    if (buffer.unwritten < 0) continue;
    buffer.copied.wait();  // which is no wait for the disk
    buffer.ticket =
        storage_->write(first_extent_ + std::exchange(buffer.unwritten, -1), 0, plan_.bytes(), buffer.passage);
  }
}

void OffloadedInputs::begin_write(int extent, Buffer& buffer) {
  if (gpu_ == nullptr) {
    buffer.ticket = storage_->write(first_extent_ + extent, 0, plan_.bytes(), buffer.memory);
    return;
  }
  const auto to = passes() ? passage_of(buffer) : on_host(extent);
  buffer.used = link_->copy(Stream::inputs_down, in(buffer), to, gpu_->record());
  if (passes()) buffer.copied = buffer.used, buffer.unwritten = extent;
  else base::at(written_to_host_, extent) = buffer.used;
}

void OffloadedInputs::begin_read(int extent, Buffer& buffer) {
  if (passes()) {
    write_passages();
    std::exchange(buffer.copied, {}).wait();
    buffer.ticket = storage_->read(first_extent_ + extent, 0, plan_.bytes(), buffer.passage);
    buffer.arrived = false;
    return;
  }
  if (gpu_ == nullptr) {
    buffer.ticket = storage_->read(first_extent_ + extent, 0, plan_.bytes(), buffer.memory);
    return;
  }
  link_->wait(Stream::inputs_up, base::at(written_to_host_, extent));
  buffer.used = link_->copy(Stream::inputs_up, on_host(extent), in(buffer), buffer.used);
}

void OffloadedInputs::bring_up(Buffer& buffer) {
  if (std::exchange(buffer.arrived, true)) return;
  blocked([&] { storage_->wait(std::exchange(buffer.ticket, 0)); });
  buffer.copied = buffer.used = link_->copy(Stream::inputs_up, passage_of(buffer), in(buffer), buffer.used);
}

void OffloadedInputs::begin_step() {
  for (auto& buffer : reads_) wait(buffer);
  for (auto& buffer : writes_) buffer.unwritten = -1;
  std::fill(not_read_.begin(), not_read_.end(), 0);
  begun_ = released_ = 0;
}

void OffloadedInputs::write(tensor::Exec& exec, int extent, base::ConstView input) {
  TRAINYARD_ASSERT(input.bytes() == plan_.bytes(), "an input of {} bytes, planned with {}", input.bytes(),
                   plan_.bytes());
  if (passes()) write_passages();
  auto& buffer = in_turn(writes_, written_++);
  wait(buffer);
  tensor::copy(exec, input, base::View(buffer.memory, input.dtype, {input.rows(), input.cols()}, input.device));
  begin_write(extent, buffer);
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
    begin_read(extent, in_turn(reads_, begun_++));
  }
}

base::View OffloadedInputs::take(int extent, base::ConstView like) {
  TRAINYARD_ASSERT(released_ < begun_ && base::at(order_, released_) == extent,
                   "input {} is taken out of order: {} of {} reads begun, {} released", extent, begun_, order_.size(),
                   released_);
  auto& buffer = in_turn(reads_, released_);
  if (passes()) bring_up(buffer);
  wait(buffer);
  return {buffer.memory, like.dtype, {like.rows(), like.cols()}, like.device};
}

void OffloadedInputs::release() {
  if (gpu_ != nullptr) in_turn(reads_, released_).used = gpu_->record();
  ++released_;
  read_ahead();
  // The host waits for the next one while the GPU computes what was just called.
  if (passes() && begun_ > released_) bring_up(in_turn(reads_, released_));
}

}  // namespace trainyard::model
