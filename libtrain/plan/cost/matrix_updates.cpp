// Deals matrices to owners, and counts what moves.
#include "libtrain/plan/cost/matrix_updates.h"

#include "libtrain/base/aligned.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/held.h"
#include "libtrain/plan/blocks/scratch.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace trainyard::plan {

namespace {

constexpr std::int64_t f32_bytes = 4;

// The multiply-adds of an iteration, up to a factor that all matrices share.
double work_of(const DealtMatrix& m) {
  const auto side = static_cast<double>(std::min(m.rows(), m.cols())),
             length = static_cast<double>(std::max(m.rows(), m.cols()));
  return side * side * (2 * length + side);
}

}  // namespace

bool is_hidden_matrix(const FlatGroup& flat_group, const Parameter& p) {
  return flat_group.part == Part::layers && p.shape.size() == 2 && p.stored == p.shape &&
         p.update.kind == Update::Kind::optimizer && (!p.sharded || p.sharded->axis == Axis::tensor);
}

DealtMatrix::Piece DealtMatrix::piece(int shard) const {
  const auto& layout = entry->layout;
  const auto begin = shard * layout.shard, from = std::max(begin, layout.offsets[parameter]),
             to = std::min(begin + layout.shard, layout.end(parameter));
  if (from >= to) return {};
  return {from - layout.offsets[parameter], to - from, from - begin};
}

MatrixUpdates::MatrixUpdates(const FlatGroupTable& table, const Topology& topology) : topology_(topology) {
  const auto tensor = topology.size(Axis::tensor);
  for (const auto& e : table.entries())
    for (std::size_t p = 0; p < e.flat_group.parameters.size(); ++p) {
      const auto& parameter = e.flat_group.parameters[p];
      if (!is_hidden_matrix(e.flat_group, parameter)) continue;
      const bool sliced = parameter.sharded.has_value() && tensor > 1;
      for (std::int64_t i = 0; i < e.times; ++i)
        matrices_.push_back({&e, static_cast<int>(e.index + i * e.stride), p, sliced ? tensor : 1,
                             sliced ? parameter.sharded->dim : 0});
    }
  std::stable_sort(matrices_.begin(), matrices_.end(), [](const DealtMatrix& a, const DealtMatrix& b) {
    return std::pair(a.flat_group, a.parameter) < std::pair(b.flat_group, b.parameter);
  });
  std::vector<std::vector<std::size_t>> members;  // of each family
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const auto& m = matrices_[i];
    const auto same = std::find_if(families_.begin(), families_.end(), [&](const Family& f) {
      return f.group == m.entry->flat_group.group && f.parts == m.parts;
    });
    const auto at = static_cast<std::size_t>(same - families_.begin());
    if (same == families_.end())
      families_.push_back({.group = m.entry->flat_group.group, .shards = m.entry->shards, .parts = m.parts}),
          members.emplace_back();
    members[at].push_back(i);
  }
  for (std::size_t f = 0; f < families_.size(); ++f) {
    auto& family = families_[f];
    deal(family, members[f]);
    for (const auto i : members[f]) count(family, matrices_[i]);
    crosses_parts_ = crosses_parts_ || family.parts > 1;
    if (family.shards > 1 && std::find(groups_.begin(), groups_.end(), family.group) == groups_.end())
      groups_.push_back(family.group);
  }
}

void MatrixUpdates::deal(Family& family, const std::vector<std::size_t>& members) {
  auto order = members;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work_of(matrices_[a]) > work_of(matrices_[b]); });
  using Load = std::pair<double, int>;  // of an owner
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int owner = 0; owner < family.shards * family.parts; ++owner) least.push({0, owner});
  for (const auto i : order) {
    auto [load, owner] = least.top();
    least.pop();
    matrices_[i].owner = owner / family.parts, matrices_[i].owner_part = owner % family.parts;
    least.push({load + work_of(matrices_[i]), owner});
  }
}

void MatrixUpdates::count(Family& family, const DealtMatrix& m) {
  const auto owners = base::size(family.shards * family.parts);
  for (auto* of_each : {&family.kept, &family.sent_across_parts, &family.sent_across_shards}) of_each->resize(owners);
  family.bytes += m.rows() * m.cols() * f32_bytes;
  if (!m.moves()) return;
  const auto at = [&](int shard, int part) { return base::size(shard * family.parts + part); };
  const auto owner = at(m.owner, m.owner_part);
  family.kept[owner] += base::aligned(m.parts * m.held() * f32_bytes);
  for (int shard = m.first_shard(); shard < m.end_shard(); ++shard) {
    const auto bytes = m.piece(shard).count * f32_bytes;
    const auto collects = at(shard, m.owner_part);  // the pieces of all parts, for the owner
    for (int part = 0; part < m.parts; ++part)
      if (part != m.owner_part) family.sent_across_parts[at(shard, part)] += bytes;
    family.sent_across_parts[collects] += (m.parts - 1) * bytes;
    if (shard == m.owner) continue;
    family.kept[collects] += (m.parts - 1) * base::aligned(bytes);
    family.sent_across_shards[collects] += m.parts * bytes;
    family.sent_across_shards[owner] += m.parts * bytes;
  }
}

std::vector<SizedCalls> MatrixUpdates::calls(int rank) const {
  std::vector<SizedCalls> out;
  const auto add = [&](CallGroup group, int ranks, std::int64_t bytes, std::int64_t sent) {
    auto same = std::find_if(out.begin(), out.end(), [&](const SizedCalls& c) { return c.group == group; });
    if (same == out.end())
      same = out.insert(out.end(), {.group = group,
                                    .ranks = ranks,
                                    .operation = "all_to_all",
                                    .type = base::DType::f32,
                                    .bytes = 0,
                                    .calls = 2,
                                    .sending = 2,
                                    .sent = 0});
    same->bytes += bytes;
    *same->sent += sent;
  };
  for (const auto& f : families_) {
    const auto part = f.parts > 1 ? topology_.coordinate(rank, Axis::tensor) : 0;
    const auto at = base::size(place_in_group(topology_, rank, f.group) * f.parts + part);
    const auto mean = f.bytes / (f.shards * f.parts);  // what a rank has of it
    if (f.parts > 1) add(Axis::tensor, f.parts, mean, f.sent_across_parts[at]);
    if (f.shards > 1) add(f.group, f.shards, mean, f.sent_across_shards[at]);
  }
  return out;
}

std::int64_t MatrixUpdates::workspace_bytes(base::DeviceKind device) const {
  std::int64_t kept = 0, iterations = 0;
  for (const auto& f : families_) kept += *std::max_element(f.kept.begin(), f.kept.end());
  for (const auto& m : matrices_) {
    const auto products =
        device == base::DeviceKind::cuda ? gpu_gemm_scratch_bytes : newton_schulz_products_bytes(m.rows(), m.cols());
    const auto joined = m.parts > 1 && m.dim == 1 ? base::aligned(m.rows() * m.cols() * f32_bytes) : 0;
    iterations = std::max(iterations, joined + newton_schulz_scratch_bytes(m.rows(), m.cols(), products));
  }
  return kept + iterations;
}

}  // namespace trainyard::plan
