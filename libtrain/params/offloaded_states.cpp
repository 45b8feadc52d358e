// Tiles and ranges of what lies in a storage.
#include "libtrain/params/offloaded_states.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/thread.h"
#include "libtrain/base/trace_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainyard::params {

namespace {

std::int64_t block_elements(base::DType dtype) { return base::storage_block_bytes / base::size_of(dtype); }

std::byte* allocated(tensor::Arena& arena, std::int64_t bytes) {
  auto* memory = static_cast<std::byte*>(arena.allocate_bytes(bytes));
  TRAINYARD_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % base::storage_alignment == 0,
                   "a buffer of {} bytes that direct transfers cannot use", bytes);
  return memory;
}

}  // namespace

std::vector<base::StorageExtent> storage_extents(const plan::OffloadPlan& plan,
                                                 const std::vector<plan::FlatGroup>& flat_groups) {
  const auto what = [](const plan::OffloadExtent& e) {
    switch (e.held) {
      case plan::Held::parameter: return std::string("weights");
      case plan::Held::master: return std::string("f32 masters");
      case plan::Held::gradient: return std::string("gradient");
      case plan::Held::state: break;
    }
    return fmt::format("optimizer state {}", e.state);
  };
  std::vector<base::StorageExtent> out;
  for (const auto& e : plan.extents())
    if (e.place == plan::Place::disk)
      out.push_back({fmt::format("{} of {}", what(e), base::at(flat_groups, e.flat_group).name), e.bytes()});
  return out;
}

OffloadedStates::OffloadedStates(plan::OffloadPlan plan, std::unique_ptr<base::Storage> storage, OffloadMemory memory,
                                 int threads, tensor::Exec* gpu)
    : plan_(std::move(plan)), gpu_(gpu), storage_(std::move(storage)) {
  TRAINYARD_ASSERT((storage_ != nullptr || !plan_.has_any(plan::Place::disk)) &&
                       (gpu_ != nullptr || !plan_.has_any(plan::Place::host)),
                   "{} bytes on disk {} a storage, {} bytes on the host of {}", plan_.disk_bytes(),
                   storage_ ? "with" : "without", plan_.host_bytes(), gpu_ == nullptr ? "no GPU" : "a GPU");
  reserve(memory);
  if (gpu_ != nullptr) {
    link_ = std::make_unique<OffloadLink>(gpu_->device());
    numbers_ = tensor::PinnedBuffer(sizeof(kernels::StepNumbers));
    pin();
  }
  make_tiles();
  if (threads > 1) base::require_threads(threads - 1);
  updates_ = tensor::Exec::worker("update", nullptr, threads);
}

OffloadedStates::~OffloadedStates() = default;

void OffloadedStates::reserve(const OffloadMemory& memory_of) {
  for (auto& tile : buffers_)
    for (const auto& column : plan_.columns())
      tile.columns.push_back(allocated(memory_of.buffers, plan_.column_bytes(column)));
  const auto slots = [&](const std::vector<std::int64_t>& all, tensor::Arena* of_gpu) {
    std::vector<std::byte*> out;
    for (const auto bytes : all) {
      auto* memory = bytes == 0        ? nullptr
                     : gpu_ != nullptr ? static_cast<std::byte*>(of_gpu->allocate_bytes(bytes))
                                       : allocated(memory_of.buffers, bytes);
      out.push_back(memory);
    }
    return out;
  };
  arrivals_ = slots(plan_.arrival_bytes(), memory_of.arrivals);
  sums_ = slots(plan_.sum_bytes(), memory_of.sums);
  if (plan_.rounds_sums()) leaving_ = slots(plan_.leaving_bytes(), memory_of.sums);
  if (const auto bytes = plan_.visit_bytes(); bytes > 0)
    visit_ = static_cast<std::byte*>(memory_of.sums->allocate_bytes(bytes));
  if (const auto bytes = plan_.widened_bytes(); bytes > 0) widened_ = allocated(memory_of.buffers, bytes);
  const auto passages = [&](const std::vector<std::int64_t>& all) {
    std::vector<Passage> out;
    for (const auto bytes : all) out.push_back({bytes > 0 ? allocated(memory_of.buffers, bytes) : nullptr});
    return out;
  };
  weights_passages_ = passages(plan_.passage_bytes());
  if (gpu_ != nullptr && plan_.has_any(Held::gradient, plan::Place::disk))
    gradient_passages_ = passages(plan_.leaving_bytes());
  int in_storage = 0;
  for (const auto& e : plan_.extents()) {
    const bool on_disk = e.place == plan::Place::disk;
    storage_extents_.push_back(on_disk ? in_storage++ : -1);
    host_.push_back(on_disk ? nullptr : static_cast<std::byte*>(memory_of.states->allocate_bytes(e.bytes())));
  }
  const auto all = plan_.buffer_bytes();
  if (storage_ && all > 0) storage_->use_memory({buffers_[0].columns[0], base::size(all)});
}

// Copies work without, but slower.
void OffloadedStates::pin() {
  const auto pin = [](tensor::Pinning& pinning, void* memory, std::int64_t bytes) {
    if (bytes == 0) return;
    if (const char* refusal = pinning.pin(memory, bytes))
      base::log_warning("{} bytes of offloaded states cannot be pinned ({}): copies will hold up the GPU", bytes,
                        refusal);
  };
  if (!plan_.columns().empty()) pin(pinned_buffers_, buffers_[0].columns[0], plan_.buffer_bytes());
  const auto first = std::find_if(host_.begin(), host_.end(), [](const auto* memory) { return memory != nullptr; });
  if (first != host_.end()) pin(pinned_states_, *first, plan_.host_bytes());
}

base::View OffloadedStates::arrival(int slot, base::DType dtype, std::int64_t elements) const {
  return {base::at(arrivals_, slot), dtype, {elements}, gpu_ != nullptr ? gpu_->device() : base::Device{}};
}

base::View OffloadedStates::sum(int flat_group, base::DType dtype, std::int64_t elements) const {
  return {base::at(sums_, plan_.sum_slot(flat_group)),
          dtype,
          {elements},
          gpu_ != nullptr ? gpu_->device() : base::Device{}};
}

base::View OffloadedStates::on_host(int extent) const {
  const auto& e = base::at(plan_.extents(), extent);
  return {base::at(host_, extent), e.dtype, {e.elements}};
}

OffloadedStates::Ticket OffloadedStates::transfer(int extent, std::int64_t first, std::int64_t elements,
                                                  std::byte* memory, Way way) {
  const auto size = base::size_of(base::at(plan_.extents(), extent).dtype);
  const auto at = base::at(storage_extents_, extent);
  return way == Way::read ? storage_->read(at, first * size, elements * size, memory)
                          : storage_->write(at, first * size, elements * size, memory);
}

template <class Work> void OffloadedStates::blocked(const Work& work) {
  const base::TraceScope traced(base::traced::wait, "wait");
  const double start = base::steady_seconds();
  work();
  blocked_ += base::steady_seconds() - start;
}

void OffloadedStates::wait(const Transfer& transfer) {
  if (transfer.ticket != 0) blocked([&] { storage_->wait(transfer.ticket); });
  if (transfer.copied.state() == nullptr) return;
  if (gradient_passages_.empty()) return gpu_->wait(transfer.copied);
  // The thread of updates copies, once the disk has taken what was in the buffer.
  blocked([&] { gpu_->wait(transfer.copied); });
}

void OffloadedStates::begin_fetch(int u) {
  if (!weights_pass() || !has(u, Held::parameter) || is_updating(u)) return;
  auto& passage = base::at(weights_passages_, plan_.weights_slot(u));
  if (passage.flat_group == u) return;
  std::exchange(passage.copied, {}).wait();
  const auto& e = base::at(plan_.extents(), plan_.find(u, Held::parameter));
  passage.flat_group = u;
  passage.ticket = whole(u, Held::parameter, {passage.memory, e.dtype, {e.elements}}, Way::read);
}

void OffloadedStates::forget_fetches() {
  for (auto& passage : weights_passages_) {
    if (passage.ticket != 0) storage_->wait(std::exchange(passage.ticket, 0));
    passage.flat_group = -1;
  }
}

OffloadedStates::Transfer OffloadedStates::fetch_weights(int u, base::View to, const tensor::Event& free) {
  if (gpu_ == nullptr) return {whole(u, Held::parameter, to, Way::read)};
  const auto extent = plan_.find(u, Held::parameter);
  if (!weights_pass()) return {0, link_->copy(OffloadLink::Stream::weights_up, on_host(extent), to, free)};
  begin_fetch(u);
  auto& passage = base::at(weights_passages_, plan_.weights_slot(u));
  TRAINYARD_ASSERT(passage.flat_group == u, "flat group {} is fetched where {} passes", u, passage.flat_group);
  wait({std::exchange(passage.ticket, 0)});
  passage.flat_group = -1;
  passage.copied =
      link_->copy(OffloadLink::Stream::weights_up, base::ConstView(passage.memory, to.dtype, {to.count()}), to, free);
  return {0, passage.copied};
}

// To the disk of a GPU's host: the thread of updates, which has nothing else to do, waits for the copy.
OffloadedStates::Transfer OffloadedStates::write_gradient(tensor::Exec& compute, int u, base::View sum) {
  const auto extent = plan_.find(u, Held::gradient);
  auto from = sum;
  if (const auto dtype = base::at(plan_.extents(), extent).dtype; dtype != sum.dtype) {
    from = {base::at(leaving_, plan_.sum_slot(u)), dtype, {sum.count()}, sum.device};
    kernels::cast(compute, sum, from);
  }
  if (gpu_ == nullptr) return {whole(u, Held::gradient, from, Way::write)};
  if (gradient_passages_.empty()) {
    gradients_down_ = link_->copy(OffloadLink::Stream::gradients_down, from, on_host(extent), gpu_->record());
    return {0, gradients_down_};
  }
  updates_->run([this, u, from, ready = gpu_->record()] {
    auto& passage = base::at(gradient_passages_, plan_.sum_slot(u));
    if (passage.ticket != 0) storage_->wait(passage.ticket);
    const base::View to(passage.memory, from.dtype, {from.count()});
    link_->copy(OffloadLink::Stream::gradients_down, from, to, ready).wait();
    passage.ticket = whole(u, Held::gradient, to, Way::write);
  });
  return {0, updates_->record()};
}

OffloadedStates::Ticket OffloadedStates::whole(int flat_group, Held held, base::View memory, Way way) {
  const auto extent = plan_.find(flat_group, held);
  const auto elements = base::at(plan_.extents(), extent).elements;
  TRAINYARD_ASSERT(memory.count() == elements, "{} elements of an extent of {}", memory.count(), elements);
  return transfer(extent, 0, elements, static_cast<std::byte*>(memory.data), way);
}

void OffloadedStates::make_tiles() {
  int last = -1;
  for (const auto& e : plan_.extents()) {
    if (e.flat_group == last) continue;
    last = e.flat_group;
    for (std::int64_t first = 0; first < e.elements; first += tile_elements()) {
      const auto end = std::min(e.elements, first + tile_elements());
      const auto& buffers = buffers_of(tiles_.size());
      auto& tile = tiles_.emplace_back(Tile{last, {first, end}, {}, &plan_});
      for (std::size_t i = 0; i < plan_.columns().size(); ++i) {
        const auto& column = plan_.columns()[i];
        const auto source = plan_.source_of(last, column.held, column.state);
        auto& view = tile.columns.emplace_back();
        if (source == Source::memory) continue;
        if (source == Source::host)
          view = on_host(plan_.find(last, column.held, column.state)).elements(first, end - first);
        else view = {buffers.columns[i], column.dtype, {end - first}};
        if (column.held != Held::gradient || !plan_.rounds_sums()) continue;
        tile.rounded = std::exchange(view, {widened_, base::DType::f32, {end - first}});
      }
    }
  }
}

void OffloadedStates::begin_read(std::size_t i) {
  const auto& tile = tiles_[i];
  auto& buffers = buffers_of(i);
  finish(buffers);
  for (std::size_t c = 0; c < plan_.columns().size(); ++c) {
    const auto& column = plan_.columns()[c];
    const bool is_rounded = column.held == Held::gradient && tile.rounded;
    const auto& to = is_rounded ? tile.rounded : tile.columns[c];
    if (column.held == Held::parameter && base::is_narrow(column.dtype)) continue;
    switch (plan_.source_of(tile.flat_group, column.held, column.state)) {
      case Source::memory:
      case Source::host: break;
      case Source::disk:
        buffers.under_way.push_back(transfer(plan_.find(tile.flat_group, column.held, column.state), tile.range.first,
                                             to.count(), buffers.columns[c], Way::read));
        break;
      case Source::device:
        if (const auto& from = on_device_[i][c]; !is_rounded)
          buffers.copied = link_->copy(OffloadLink::Stream::tiles_down, from, to, {});
        else
          buffers.copied = link_->copy_rounded(OffloadLink::Stream::tiles_down, from,
                                               {visit_, to.dtype, {to.count()}, from.device}, to);
        break;
    }
  }
}

void OffloadedStates::begin_write(std::size_t i) {
  const auto& tile = tiles_[i];
  auto& buffers = buffers_of(i);
  for (std::size_t c = 0; c < plan_.columns().size(); ++c) {
    const auto& column = plan_.columns()[c];
    if (column.held == Held::gradient) continue;
    switch (plan_.source_of(tile.flat_group, column.held, column.state)) {
      case Source::memory:
      case Source::host: break;
      case Source::disk:
        buffers.under_way.push_back(transfer(plan_.find(tile.flat_group, column.held, column.state), tile.range.first,
                                             tile.columns[c].count(), buffers.columns[c], Way::write));
        break;
      case Source::device:
        buffers.copied = link_->copy(OffloadLink::Stream::tiles_up, tile.columns[c], on_device_[i][c], {});
        break;
    }
  }
}

void OffloadedStates::finish(Buffers& buffers) {
  for (const auto ticket : buffers.under_way) storage_->wait(ticket);
  buffers.under_way.clear();
  std::exchange(buffers.copied, {}).wait();
}

const kernels::StepNumbers* OffloadedStates::numbers_for_update(const kernels::StepNumbers* numbers) {
  if (gpu_ == nullptr || numbers == nullptr) return numbers;
  finish_update();
  constexpr std::int64_t bytes = sizeof(kernels::StepNumbers);
  auto* copy = numbers_.data<kernels::StepNumbers>();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a view of what is only read
  const base::View there(const_cast<kernels::StepNumbers*>(numbers), base::DType::u8, {bytes}, gpu_->device());
  tensor::copy(*gpu_, there, base::View(copy, base::DType::u8, {bytes}));
  return copy;
}

// Places that do not change from step to step.
void OffloadedStates::find_on_device(const OnDevice& on_device) {
  for (const auto& tile : tiles_) {
    auto& views = on_device_.emplace_back();
    for (const auto& column : plan_.columns())
      views.push_back(plan_.source_of(tile.flat_group, column.held, column.state) == Source::device
                          ? on_device(tile.flat_group, column.held, column.state, tile.range)
                          : base::View{});
  }
}

void OffloadedStates::stream(const std::function<void(const Tile&)>& update, const OnDevice& on_device) {
  finish_update();
  if (gpu_ != nullptr) {
    // What visits the host is final, and what leases copied from there has arrived: `compute` waited for it.
    updates_->wait(gpu_->record());
    updates_->wait(gradients_down_);
    if (on_device_.empty()) find_on_device(on_device);
    changed_on_device_.assign(base::size(tiles_.back().flat_group) + 1, {});
  }
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    const int u = tiles_[i].flat_group;
    const bool ends = i + 1 == tiles_.size() || tiles_[i + 1].flat_group != u;
    updates_->run([this, i] {
      if (i == 0) begin_read(0);
      if (i + 1 < tiles_.size()) begin_read(i + 1);
      finish(buffers_of(i));
    });
    if (tiles_[i].rounded) kernels::cast(*updates_, tiles_[i].rounded, tiles_[i].of(Held::gradient));
    update(tiles_[i]);
    updates_->run([this, i, u, ends] {
      begin_write(i);
      if (ends && link_) base::at(changed_on_device_, u) = link_->record(OffloadLink::Stream::tiles_up);
    });
    if (ends) being_updated_[u] = updates_->record();
  }
}

void OffloadedStates::await_update(int flat_group) {
  const auto updated = being_updated_.find(flat_group);
  if (updated == being_updated_.end()) return;
  blocked([&] { updated->second.wait(); });
  being_updated_.erase(updated);
  if (gpu_ != nullptr) gpu_->wait(base::at(changed_on_device_, flat_group));
}

void OffloadedStates::finish_update() {
  while (!being_updated_.empty()) await_update(being_updated_.begin()->first);
}

void OffloadedStates::abandon_update() noexcept {
  being_updated_.clear();
  try {
    updates_->synchronize();
  } catch (...) {  // nobody asks for these states any more
  }
}

void OffloadedStates::read(int flat_group, Held held, std::size_t state, std::int64_t first, base::View to) {
  finish_update();
  const auto extent = plan_.find(flat_group, held, state);
  const auto& e = base::at(plan_.extents(), extent);
  if (held == Held::gradient && gpu_ != nullptr) updates_->record().wait();
  TRAINYARD_ASSERT(to.dtype == e.dtype && first >= 0 && first + to.count() <= e.elements, "{} elements at {} of {}",
                   to.count(), first, e.elements);
  if (e.place == plan::Place::host) {
    gradients_down_.wait();
    std::memcpy(to.data, on_host(extent).elements(first, to.count()).data, base::size(to.bytes()));
    return;
  }
  const auto size = base::size_of(e.dtype), block = block_elements(e.dtype), end = first + to.count();
  const auto column = base::size(plan_.column_of(held, state));
  auto& buffers = buffers_[0];
  finish(buffers);
  for (auto at = first; at < end;) {
    const auto from = at / block * block, most = std::max(block, tile_elements() / block * block),
               piece = std::min(e.elements - from, most);
    storage_->wait(transfer(extent, from, piece, buffers.columns[column], Way::read));
    const auto count = std::min(end, from + piece) - at;
    std::memcpy(static_cast<std::byte*>(to.data) + (at - first) * size, buffers.columns[column] + (at - from) * size,
                base::size(count * size));
    at += count;
  }
}

void OffloadedStates::outside_steps(const std::function<void()>& work) {
  const auto settled = [this] {
    finish_update();
    if (storage_) storage_->wait_all();
    return std::pair(storage_ ? storage_->totals() : base::StorageTotals{},
                     link_ ? link_->totals() : plan::LinkBytes{});
  };
  const auto [before, link_before] = settled();
  const auto count = [&, before = before, link_before = link_before] {
    const auto [after, link_after] = settled();
    outside_.read += after.read - before.read, outside_.written += after.written - before.written;
    outside_link_.down += link_after.down - link_before.down, outside_link_.up += link_after.up - link_before.up;
  };
  try {
    work();
  } catch (...) {  // such as a damaged checkpoint, after which another one is loaded
    count();
    throw;
  }
  count();
}

base::StorageTotals OffloadedStates::in_steps() {
  finish_update();
  if (!storage_) return {};
  storage_->wait_all();
  const auto all = storage_->totals();
  return {all.read - outside_.read, all.written - outside_.written};
}

plan::LinkBytes OffloadedStates::link_in_steps() {
  finish_update();
  if (!link_) return {};
  const auto all = link_->totals();
  return {all.down - outside_link_.down, all.up - outside_link_.up};
}

void OffloadedStates::clear(int flat_group, Held held, std::size_t state) {
  const auto& e = base::at(plan_.extents(), plan_.find(flat_group, held, state));
  const std::vector<std::byte> zeros(base::size(std::min(tile_elements(), e.elements) * base::size_of(e.dtype)));
  for (std::int64_t first = 0; first < e.elements; first += tile_elements())
    write(flat_group, held, state, first,
          base::ConstView(zeros.data(), e.dtype, {std::min(tile_elements(), e.elements - first)}));
}

void OffloadedStates::write(int flat_group, Held held, std::size_t state, std::int64_t first, base::ConstView from) {
  finish_update();
  const auto extent = plan_.find(flat_group, held, state);
  const auto& e = base::at(plan_.extents(), extent);
  TRAINYARD_ASSERT(from.dtype == e.dtype && first % tile_elements() == 0 && first + from.count() <= e.elements,
                   "{} elements at {} of {}", from.count(), first, e.elements);
  const auto size = base::size_of(e.dtype);
  if (e.place == plan::Place::host) {
    std::memcpy(on_host(extent).elements(first, from.count()).data, from.data, base::size(from.bytes()));
    return;
  }
  const auto column = base::size(plan_.column_of(held, state));
  for (std::int64_t done = 0; done < from.count(); done += tile_elements()) {
    const auto count = std::min(tile_elements(), from.count() - done);
    auto& buffers = buffers_[base::size(done / tile_elements()) % buffers_.size()];
    finish(buffers);
    std::memcpy(buffers.columns[column], static_cast<const std::byte*>(from.data) + done * size,
                base::size(count * size));
    buffers.under_way.push_back(transfer(extent, first + done, count, buffers.columns[column], Way::write));
  }
}

}  // namespace trainyard::params
