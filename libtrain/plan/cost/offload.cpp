// Which extents a rank has.
#include "libtrain/plan/cost/offload.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <functional>

namespace trainyard::plan {

namespace {

// The first flat groups, in order, whose bytes together reach the share.
std::vector<bool> chosen_groups(const Placement& placement, const std::vector<std::int64_t>& bytes) {
  std::vector<bool> out(bytes.size(), false);
  if (placement.place == Place::device) return out;
  double all = 0, chosen = 0;
  for (const auto b : bytes) all += static_cast<double>(b);
  for (std::size_t u = 0; u < bytes.size(); ++u)
    if (bytes[u] > 0 && chosen < placement.share * all) out[u] = true, chosen += static_cast<double>(bytes[u]);
  return out;
}

}  // namespace

OffloadPlan::OffloadPlan(const FlatGroupTable& table, const StateShape& s) {
  if (!s.offload.any()) return;
  device_ = s.device, working_ = s.working;
  gradient_ = s.sums_elsewhere(), sum_ = s.gradient, rounds_sums_ = s.rounds_sums();
  for (std::size_t i = 0; i < s.optimizer->element_states(); ++i) states_.push_back(s.optimizer->states[i].dtype);
  std::vector<const FlatGroupEntry*> groups(base::size(table.flat_groups()));
  for (const auto& e : table.entries())
    for (std::int64_t i = 0; i < e.times; ++i) base::at(groups, e.index + i * e.stride) = &e;
  const std::int64_t of_states = s.optimizer->state_bytes() + master_bytes(s.working);
  const auto chosen = [&](const Placement& placement, const std::function<std::int64_t(const FlatGroupEntry&)>& bytes) {
    std::vector<std::int64_t> all;
    for (const auto* e : groups) all.push_back(bytes(*e));
    return chosen_groups(placement, all);
  };
  const auto updated = [&](const FlatGroupEntry& e) { return s.zero == 0 ? e.layout.padded : e.layout.shard; };
  const auto states = chosen(s.offload.optimizer, [&](const auto& e) { return updated(e) * of_states; });
  const auto parameters = chosen(s.offload.parameters, [](const auto& e) { return e.layout.shard; });
  const auto gradients =
      chosen(s.offload.gradients, [](const auto& e) { return e.flat_group.part == Part::layers ? e.layout.shard : 0; });
  by_group_.resize(groups.size());
  for (std::size_t u = 0; u < groups.size(); ++u) {
    const auto& e = *groups[u];
    const auto at = static_cast<int>(u);
    const auto shard = e.layout.shard;
    updated_.push_back(updated(e));
    if (parameters[u]) add({at, Held::parameter, 0, s.working, shard, shard, s.offload.parameters.place});
    const auto with_states = s.offload.optimizer.place;
    if (states[u] && master_bytes(s.working) > 0)
      add({at, Held::master, 0, base::DType::f32, updated(e), shard, with_states});
    for (std::size_t i = 0; states[u] && i < states_.size(); ++i)
      add({at, Held::state, i, states_[i], updated(e), shard, with_states});
    if (gradients[u]) add({at, Held::gradient, 0, gradient_, shard, shard, s.offload.gradients.place});
    if (by_group_[u].empty()) continue;
    tile_elements_ = std::max(tile_elements_, updated(e));
    for_each_updated(at, [&](Held held, std::size_t state, base::DType dtype, std::int64_t) {
      if (source_of(at, held, state) != Source::memory) add_column({held, state, dtype});
    });
  }
  tile_elements_ = std::min(tile_elements_, most_tile_elements);
  if (std::any_of(parameters.begin(), parameters.end(), [](bool b) { return b; })) {
    const SlotPlan slots(table, s.gathered_layers);
    arrival_bytes_.resize(slots.elements().size());
    const bool passes = on_gpu() && s.offload.parameters.place == Place::disk;
    passage_bytes_.resize(passes ? arrival_bytes_.size() : 0);
    for (std::size_t u = 0; u < groups.size(); ++u) {
      weights_slots_.push_back(slots.slot_of(static_cast<int>(u)));
      const auto need = base::storage_bytes(groups[u]->layout.shard * base::size_of(s.working));
      const auto take = [&](std::vector<std::int64_t>& bytes) {
        auto& mine = base::at(bytes, weights_slots_.back());
        mine = std::max(mine, need);
      };
      if (parameters[u] && groups[u]->shards > 1) take(arrival_bytes_);
      if (parameters[u] && passes) take(passage_bytes_);
    }
  }
  sum_slots_.assign(groups.size(), -1);
  if (std::any_of(gradients.begin(), gradients.end(), [](bool b) { return b; })) {
    const SlotPlan slots(table, s.gathered_layers);
    sum_bytes_.resize(slots.elements().size()), leaving_bytes_.resize(slots.elements().size());
    for (std::size_t u = 0; u < groups.size(); ++u)
      if (gradients[u]) {
        sum_slots_[u] = slots.slot_of(static_cast<int>(u));
        const auto take = [&](std::vector<std::int64_t>& bytes, base::DType dtype) {
          auto& mine = base::at(bytes, sum_slots_[u]);
          mine = std::max(mine, base::storage_bytes(groups[u]->layout.shard * base::size_of(dtype)));
        };
        take(sum_bytes_, sum_), take(leaving_bytes_, gradient_);
      }
  }
}

void OffloadPlan::add(const OffloadExtent& e) {
  base::at(by_group_, e.flat_group).push_back(static_cast<int>(extents_.size()));
  extents_.push_back(e);
}

void OffloadPlan::add_column(const Column& column) {
  if (std::find(columns_.begin(), columns_.end(), column) == columns_.end()) columns_.push_back(column);
}

template <class F> void OffloadPlan::for_each_updated(int flat_group, const F& f) const {
  const auto n = base::at(updated_, flat_group);
  f(Held::parameter, 0, working_, n);
  if (master_bytes(working_) > 0) f(Held::master, 0, base::DType::f32, n);
  for (std::size_t i = 0; i < states_.size(); ++i) f(Held::state, i, states_[i], n);
  f(Held::gradient, 0, gradient_, n);
}

int OffloadPlan::find(int flat_group, Held held, std::size_t state) const {
  if (!any()) return -1;
  for (const auto i : base::at(by_group_, flat_group))
    if (const auto& e = base::at(extents_, i); e.held == held && e.state == state) return i;
  return -1;
}

bool OffloadPlan::has_any(Held held, Place place) const {
  return std::any_of(extents_.begin(), extents_.end(),
                     [&](const auto& e) { return e.held == held && e.place == place; });
}

bool OffloadPlan::has_any(Place place) const {
  return std::any_of(extents_.begin(), extents_.end(), [&](const auto& e) { return e.place == place; });
}

OffloadPlan::Source OffloadPlan::source_of(int flat_group, Held held, std::size_t state) const {
  if (const auto extent = find(flat_group, held, state); extent >= 0)
    return base::at(extents_, extent).place == Place::disk ? Source::disk : Source::host;
  return on_gpu() ? Source::device : Source::memory;
}

std::int64_t OffloadPlan::column_bytes(const Column& column) const {
  for (std::size_t u = 0; u < by_group_.size(); ++u) {
    const auto source = source_of(static_cast<int>(u), column.held, column.state);
    if (!by_group_[u].empty() && (source == Source::disk || source == Source::device))
      return base::storage_bytes(tile_elements_ * base::size_of(column.dtype));
  }
  return 0;
}

bool OffloadPlan::streams(int flat_group) const { return any() && !base::at(by_group_, flat_group).empty(); }

int OffloadPlan::column_of(Held held, std::size_t state) const {
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i].held == held && columns_[i].state == state) return static_cast<int>(i);
  return -1;
}

std::int64_t OffloadPlan::visit_bytes() const {
  for (std::size_t u = 0; rounds_sums_ && u < by_group_.size(); ++u)
    if (!by_group_[u].empty() && source_of(static_cast<int>(u), Held::gradient) == Source::device)
      return base::storage_bytes(tile_elements_ * base::size_of(gradient_));
  return 0;
}

std::int64_t OffloadPlan::widened_bytes() const {
  return rounds_sums_ && column_of(Held::gradient) >= 0 ? base::storage_bytes(tile_elements_ * base::size_of(sum_)) : 0;
}

std::int64_t OffloadPlan::buffer_bytes() const {
  std::int64_t n = widened_bytes();
  for (const auto& column : columns_) n += tiles_in_memory * column_bytes(column);
  for (const auto bytes : passage_bytes_) n += bytes;
  if (has_any(Held::gradient, Place::disk) && (on_gpu() || rounds_sums_))
    for (const auto bytes : leaving_bytes_) n += bytes;
  if (on_gpu()) return n;
  for (const auto bytes : sum_bytes_) n += bytes;
  for (const auto bytes : arrival_bytes_) n += bytes;
  return n;
}

std::int64_t OffloadPlan::host_bytes() const {
  std::int64_t n = 0;
  for (const auto& e : extents_)
    if (e.place == Place::host) n += base::aligned(e.bytes());
  return n;
}

std::int64_t OffloadPlan::disk_bytes() const {
  std::int64_t n = 0;
  for (const auto& e : extents_)
    if (e.place == Place::disk) n += base::storage_bytes(e.bytes());
  return n;
}

// A weight in f32 is updated where it is; a narrow one is only written.
base::StorageTotals OffloadPlan::update_bytes() const {
  base::StorageTotals n;
  for (const auto& e : extents_) {
    if (e.place != Place::disk) continue;
    const auto bytes = base::storage_bytes(e.bytes());
    if (e.held != Held::parameter || !base::is_narrow(e.dtype)) n.read += bytes;
    n.written += bytes;
  }
  return n;
}

std::int64_t OffloadPlan::fetch_bytes(int flat_group) const {
  const auto extent = find(flat_group, Held::parameter);
  if (extent < 0 || base::at(extents_, extent).place != Place::disk) return 0;
  return base::storage_bytes(base::at(extents_, extent).bytes());
}

// As update_bytes(), of what visits the host.
LinkBytes OffloadPlan::update_link() const {
  LinkBytes n;
  for (std::size_t u = 0; on_gpu() && u < by_group_.size(); ++u) {
    if (by_group_[u].empty()) continue;
    const auto at = static_cast<int>(u);
    for_each_updated(at, [&](Held held, std::size_t state, base::DType dtype, std::int64_t elements) {
      const auto bytes = elements * base::size_of(dtype);
      const bool visits = source_of(at, held, state) == Source::device, is_gradient = held == Held::gradient;
      if (is_gradient || (visits && (held != Held::parameter || !base::is_narrow(dtype)))) n.down += bytes;
      if (visits && !is_gradient) n.up += bytes;
    });
  }
  return n;
}

std::int64_t OffloadPlan::fetch_link(int flat_group) const {
  const auto extent = find(flat_group, Held::parameter);
  return extent < 0 || !on_gpu() ? 0 : base::at(extents_, extent).bytes();
}

}  // namespace trainyard::plan
