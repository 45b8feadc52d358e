// The loader thread and its buffers.
#include "libtrain/engine/batches.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/thread.h"
#include "libtrain/base/trace_kinds.h"
#include "libtrain/plan/cost/memory.h"

#include <algorithm>
#include <utility>

namespace trainyard::engine {

Batches::Batches(data::WindowSource& training, data::WindowSource* validation, const plan::BatchPlan& batch,
                 int data_rank, int in_flight)
    : training_(training), validation_(validation), plan_(batch), rank_(data_rank),
      sizes_({batch.global_batch, batch.ramp}), buffers_(base::size(in_flight) + 1) {
  TRAINYARD_ASSERT(in_flight >= 1, "{} micro-batches in flight", in_flight);
  TRAINYARD_ASSERT(validation == nullptr || validation->sequence() == training.sequence(),
                   "windows of {} tokens for training, and of {} for validation", training.sequence(),
                   validation->sequence());
  TRAINYARD_ASSERT(validation == nullptr || validation->source_sequence() == training.source_sequence(),
                   "sources of {} tokens for training, and of {} for validation", training.source_sequence(),
                   validation->source_sequence());
  for (auto* b : all()) {
    b->memory.resize(base::size(buffer_bytes()));
    lay_out(*b, b->memory.data(), b->memory.data(), {});
  }
  thread_ = base::start_thread("loader", [this] { work(); });
}

Batches::~Batches() {
  {
    std::lock_guard lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<Batches::Buffer*> Batches::all() {
  std::vector<Buffer*> out{&evaluation_};
  for (auto& b : buffers_) out.push_back(&b);
  return out;
}

void Batches::work_on(tensor::Exec& exec) {
  if (!exec.on_gpu()) return;
  exec_ = &exec;
  copies_ = tensor::Exec::gpu(exec.device().index, nullptr);
  for (auto* b : all()) {
    b->pinned = tensor::PinnedBuffer(buffer_bytes());
    b->device = tensor::DeviceBuffer(exec.device().index, buffer_bytes(), "reserving memory for micro-batches");
    b->memory = {};
    lay_out(*b, b->pinned.data<char>(), b->device.data<char>(), exec.device());
  }
}

// Four arrays of i32 (five for a masked model), the keys, the weights and the count of targets, each at a multiple of
// 64 bytes. Then the six arrays of the sources, if there are any.
std::int64_t Batches::buffer_bytes() const {
  return plan::loaded_bytes({{plan_.micro_batch, sequence()}, {}, source_sequence()}, objective());
}

// `host` is where the loader writes; `seen` is where the views of the batch point.
void Batches::lay_out(Buffer& x, char* host, char* seen, base::Device device) const {
  const bool both_ways = objective() == plan::Objective::masked;
  const auto b = plan_.micro_batch, T = training_.sequence(), stride = base::aligned(b * T * 4),
             keys = (both_ways ? 5 : 4) * stride, weights = keys + base::aligned(b * 8),
             counted = weights + base::aligned(b * T);
  x.tokens = reinterpret_cast<std::int32_t*>(host), x.targets = reinterpret_cast<std::int32_t*>(host + stride);
  x.positions = reinterpret_cast<std::int32_t*>(host + 2 * stride),
  x.starts = reinterpret_cast<std::int32_t*>(host + 3 * stride);
  if (both_ways) x.ends = reinterpret_cast<std::int32_t*>(host + 4 * stride);
  x.keys = reinterpret_cast<std::uint64_t*>(host + keys);
  x.weights = reinterpret_cast<std::uint8_t*>(host + weights);
  x.counted = reinterpret_cast<double*>(host + counted);
  const auto view = [&](std::int64_t at, base::DType t) { return base::View(seen + at, t, {b, T}, device); };
  x.batch.tokens = view(0, base::DType::i32), x.batch.targets = view(stride, base::DType::i32);
  x.batch.positions = view(2 * stride, base::DType::i32), x.batch.document_start = view(3 * stride, base::DType::i32);
  if (both_ways && training_.document_mask() == data::DocumentMask::on)
    x.batch.key_end = view(4 * stride, base::DType::i32);
  x.batch.weights = view(weights, base::DType::u8);
  x.batch.counted_there = base::View(seen + counted, base::DType::f64, {1}, device);
  x.batch.keys = reinterpret_cast<const std::uint64_t*>(seen + keys);
  x.batch.samples.resize(base::size(b));
  x.batch.counted_of.resize(base::size(b));
  const auto behind = counted + base::aligned(8);
  if (source_sequence() > 0) lay_out_source(x, host + behind, seen + behind, device);
}

void Batches::lay_out_source(Buffer& x, char* host, char* seen, base::Device device) const {
  const auto b = plan_.micro_batch, S = source_sequence(), T = sequence();
  const auto next = [&](std::int32_t*& array, std::int64_t tokens) {
    array = reinterpret_cast<std::int32_t*>(host);
    const base::View view(seen, base::DType::i32, {b, tokens}, device);
    const auto bytes = base::aligned(b * tokens * 4);
    host += bytes, seen += bytes;
    return view;
  };
  auto& source = x.of_source;
  source.tokens = next(x.source.tokens, S), source.positions = next(x.source.positions, S);
  source.document_start = next(x.source.begin, S), source.key_end = next(x.source.end, S);
  x.batch.source_start = next(x.source.seen_begin, T), x.batch.source_end = next(x.source.seen_end, T);
  source.samples.resize(base::size(b));
  source.keys = x.batch.keys;
  source.counted = 0;
  x.batch.source = &source;
}

void Batches::upload(Buffer& x) {
  if (exec_ == nullptr) return;
  copies_->wait(x.used);
  tensor::copy(*copies_, base::View(x.pinned.data(), base::DType::u8, {buffer_bytes()}),
               base::View(x.device.data(), base::DType::u8, {buffer_bytes()}));
  x.copied = copies_->record();
  exec_->wait(x.copied);
}

// Called when all work on the micro-batch has been submitted.
void Batches::release(Buffer& x) {
  if (exec_ != nullptr) x.used = exec_->record();
}

void Batches::fill(Buffer& x, data::WindowSource& from, std::int64_t first_sample, std::int64_t end) {
  const base::TraceScope traced(base::traced::load, "fill", {first_sample});
  const auto T = training_.sequence();
  x.copied.wait();
  for (std::int64_t i = 0; i < plan_.micro_batch; ++i) {
    const auto at = i * T, source_at = i * source_sequence();
    x.keys[i] = base::at(x.batch.samples, i) = static_cast<std::uint64_t>(first_sample + i);
    data::WindowPtrs window{x.tokens + at, x.targets + at, x.positions + at,
                            x.starts + at, x.weights + at, x.ends != nullptr ? x.ends + at : nullptr};
    if (const auto& s = x.source; s.tokens != nullptr)
      window.source = {s.tokens + source_at, s.positions + source_at, s.begin + source_at,
                       s.end + source_at,    s.seen_begin + at,       s.seen_end + at};
    from.fill(static_cast<std::uint64_t>(first_sample + i), window);
    if (first_sample + i >= end) std::fill_n(x.weights + at, T, std::uint8_t{0});
  }
  x.of_source.samples = x.batch.samples;
  x.batch.counted = 0;
  for (std::int64_t i = 0; i < plan_.micro_batch; ++i) {
    const auto* of_sequence = x.weights + i * T;
    x.batch.counted += base::at(x.batch.counted_of, i) =
        std::count_if(of_sequence, of_sequence + T, [](std::uint8_t w) { return w != 0; });
  }
  *x.counted = static_cast<double>(x.batch.counted);
}

std::int64_t Batches::first_sample_of(std::int64_t step, std::int64_t micro) const {
  return sizes_.samples_after(step) + micro * plan_.micro_batch;
}

void Batches::after(std::int64_t& step, std::int64_t& micro) const {
  micro = batch_of(step).next(micro);
  if (micro >= 0) return;
  ++step;
  micro = plan_.first_micro(rank_);
}

const model::MicroBatch& Batches::training(std::int64_t step, std::int64_t micro) {
  for (auto& b : buffers_)
    if (&b != &ahead() && b.step == step && b.micro == micro) return b.batch;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  if (failure_) std::rethrow_exception(failure_);
  if (auto& next = ahead(); next.step != step || next.micro != micro) {  // the first one, or a step that is repeated
    fill(next, training_, first_sample_of(step, micro));
    next.step = step, next.micro = micro;
  }
  current_ = (current_ + 1) % buffers_.size();
  release(ahead());  // the oldest
  want_step_ = step, want_micro_ = micro;
  after(want_step_, want_micro_);
  wanted_ = true;
  changed_.notify_all();
  lock.unlock();
  upload(buffers_[current_]);
  return buffers_[current_].batch;
}

const model::MicroBatch& Batches::validation(std::int64_t micro, std::int64_t end) {
  TRAINYARD_ASSERT(has_validation(), "micro-batch {} of a validation without a dataset", micro);
  release(evaluation_);
  fill(evaluation_, *validation_, micro * plan_.micro_batch, end);
  upload(evaluation_);
  return evaluation_.batch;
}

void Batches::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leave_ || wanted_; });
    if (leave_) return;
    auto& x = ahead();
    const auto step = want_step_, micro = want_micro_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      fill(x, training_, first_sample_of(step, micro));
      x.step = step, x.micro = micro;
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    wanted_ = false;
    changed_.notify_all();
  }
}

}  // namespace trainyard::engine
