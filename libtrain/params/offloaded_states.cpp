// Tiles and ranges of what lies in a storage.
#include "libtrain/params/offloaded_states.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
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
    out.push_back({fmt::format("{} of {}", what(e), base::at(flat_groups, e.flat_group).name), e.bytes()});
  return out;
}

OffloadedStates::OffloadedStates(plan::OffloadPlan plan, std::unique_ptr<base::Storage> storage, tensor::Arena& arena,
                                 int threads)
    : plan_(std::move(plan)), storage_(std::move(storage)) {
  for (auto& tile : buffers_)
    for (const auto& column : plan_.columns()) tile.columns.push_back(allocated(arena, plan_.column_bytes(column)));
  for (const auto bytes : plan_.arrival_bytes()) arrivals_.push_back(bytes > 0 ? allocated(arena, bytes) : nullptr);
  for (const auto bytes : plan_.sum_bytes()) sums_.push_back(bytes > 0 ? allocated(arena, bytes) : nullptr);
  const auto all = plan_.buffer_bytes();
  if (all > 0) storage_->use_memory({buffers_[0].columns[0], base::size(all)});
  make_tiles();
  if (threads > 1) base::require_threads(threads - 1);
  updates_ = tensor::Exec::worker("update", nullptr, threads);
}

OffloadedStates::~OffloadedStates() = default;

base::View OffloadedStates::arrival(int slot, base::DType dtype, std::int64_t elements) const {
  return {base::at(arrivals_, slot), dtype, {elements}};
}

base::View OffloadedStates::sum(int flat_group, base::DType dtype, std::int64_t elements) const {
  return {base::at(sums_, plan_.sum_slot(flat_group)), dtype, {elements}};
}

OffloadedStates::Ticket OffloadedStates::transfer(int extent, std::int64_t first, std::int64_t elements,
                                                  std::byte* memory, Way way) {
  const auto size = base::size_of(base::at(plan_.extents(), extent).dtype);
  return way == Way::read ? storage_->read(extent, first * size, elements * size, memory)
                          : storage_->write(extent, first * size, elements * size, memory);
}

template <class Work> void OffloadedStates::blocked(const Work& work) {
  const base::TraceScope traced(base::traced::wait, "wait");
  const double start = base::steady_seconds();
  work();
  blocked_ += base::steady_seconds() - start;
}

void OffloadedStates::wait(Ticket ticket) {
  if (ticket != 0) blocked([&] { storage_->wait(ticket); });
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
        const bool has = plan_.find(last, column.held, column.state) >= 0;
        tile.columns.push_back(has ? base::View(buffers.columns[i], column.dtype, {end - first}) : base::View{});
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
    const auto& to = tile.columns[c];
    if (!to || (column.held == Held::parameter && base::is_narrow(column.dtype))) continue;
    buffers.under_way.push_back(transfer(plan_.find(tile.flat_group, column.held, column.state), tile.range.first,
                                         to.count(), buffers.columns[c], Way::read));
  }
}

void OffloadedStates::begin_write(std::size_t i) {
  const auto& tile = tiles_[i];
  auto& buffers = buffers_of(i);
  for (std::size_t c = 0; c < plan_.columns().size(); ++c) {
    const auto& column = plan_.columns()[c];
    if (!tile.columns[c] || column.held == Held::gradient) continue;
    buffers.under_way.push_back(transfer(plan_.find(tile.flat_group, column.held, column.state), tile.range.first,
                                         tile.columns[c].count(), buffers.columns[c], Way::write));
  }
}

void OffloadedStates::finish(Buffers& buffers) {
  for (const auto ticket : buffers.under_way) storage_->wait(ticket);
  buffers.under_way.clear();
}

void OffloadedStates::stream(const std::function<void(const Tile&)>& update) {
  finish_update();
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    updates_->run([this, i] {
      if (i == 0) begin_read(0);
      if (i + 1 < tiles_.size()) begin_read(i + 1);
      finish(buffers_of(i));
    });
    update(tiles_[i]);
    updates_->run([this, i] { begin_write(i); });
    const bool ends = i + 1 == tiles_.size() || tiles_[i + 1].flat_group != tiles_[i].flat_group;
    if (ends) being_updated_[tiles_[i].flat_group] = updates_->record();
  }
}

void OffloadedStates::await_update(int flat_group) {
  const auto updated = being_updated_.find(flat_group);
  if (updated == being_updated_.end()) return;
  blocked([&] { updated->second.wait(); });
  being_updated_.erase(updated);
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
  TRAINYARD_ASSERT(to.dtype == e.dtype && first >= 0 && first + to.count() <= e.elements, "{} elements at {} of {}",
                   to.count(), first, e.elements);
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
  finish_update();
  storage_->wait_all();
  const auto before = storage_->totals();
  const auto count = [&] {
    finish_update();
    storage_->wait_all();
    const auto after = storage_->totals();
    outside_.read += after.read - before.read, outside_.written += after.written - before.written;
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
  storage_->wait_all();
  const auto all = storage_->totals();
  return {all.read - outside_.read, all.written - outside_.written};
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
