// The way of matrices to their owners and back.
#include "libtrain/params/matrix_updates.h"

#include "kernels/cast/cast.h"
#include "kernels/newton_schulz/newton_schulz.h"
#include "libtrain/base/error.h"
#include "libtrain/comm/segments.h"
#include "libtrain/plan/blocks/held.h"

#include <algorithm>
#include <cmath>

namespace trainyard::params {

using Kind = comm::Transfer::Kind;

MatrixUpdates::MatrixUpdates(StoreContext& c) : c_(c), plan_(c.set.table, c.shape.topology) {
  for (int u = 0; u < c.flat_groups(); ++u) ranges_.push_back(ranges_of(u));
}

std::vector<kernels::Range> MatrixUpdates::ranges_of(int u) const {
  const auto& layout = c_.layout(u);
  const auto begin = c_.group(u).rank() * layout.shard;
  std::vector<kernels::Range> out;
  bool joins = false;
  for (const auto& held : plan::held_ranges(layout, begin, begin + layout.shard)) {
    const auto& group = c_.flat_group(u);
    const bool matrix = plan::is_hidden_matrix(group, group.parameters[held.parameter]);
    if (matrix && joins) out.back().end = held.at + held.count;
    else if (matrix) out.push_back({held.at, held.at + held.count});
    joins = matrix;
  }
  return out;
}

// Both sides of a message list it in the order of matrices, and within a matrix in the order of its parts.
void MatrixUpdates::add(Moves& moves, const plan::DealtMatrix& m, GradientReduction& gradients) {
  const auto whole = gradients.shard(m.flat_group);
  if (!m.moves()) {
    moves.jobs.push_back({&m, flat_range(whole, m.piece(0).at, m.held())});
    return;
  }
  const int shard = place(m), part = m.parts > 1 ? c_.world.coordinate(plan::Axis::tensor) : 0;
  const auto piece = m.piece(shard);
  const auto own = piece.count > 0 ? flat_range(whole, piece.at, piece.count) : base::View{};
  if (part != m.owner_part) {
    if (own) moves.across_parts.push_back({Kind::send, m.owner_part, own});
    return;
  }
  const bool owner = shard == m.owner;
  const auto& groups = plan_.groups();
  const auto group = std::find(groups.begin(), groups.end(), m.entry->flat_group.group) - groups.begin();
  const auto across = [&](Kind kind, int peer, base::View view) {
    base::at(moves.across_shards, group).push_back({kind, peer, view});
  };
  const auto parts = owner ? scratch(m.parts * m.held()) : base::View{};
  const auto place_of = [&](int p, const plan::DealtMatrix::Piece& of) {
    return flat_range(parts, p * m.held() + of.first, of.count);
  };
  for (int p = 0; own && p < m.parts; ++p) {
    auto from = own;
    if (p != part) {
      from = owner ? place_of(p, piece) : scratch(piece.count);
      moves.across_parts.push_back({Kind::receive, p, from});
    }
    if (!owner) across(Kind::send, m.owner, from);
    else if (p == part) moves.here.emplace_back(own, place_of(p, piece));
  }
  if (!owner) return;
  moves.jobs.push_back({&m, parts});
  for (int s = m.first_shard(); s < m.end_shard(); ++s)
    if (const auto of = m.piece(s); s != shard)
      for (int p = 0; p < m.parts; ++p) across(Kind::receive, s, place_of(p, of));
}

MatrixUpdates::Moves MatrixUpdates::moves(GradientReduction& gradients) {
  Moves out;
  out.across_shards.resize(plan_.groups().size());
  for (const auto& m : plan_.matrices()) add(out, m, gradients);
  return out;
}

void MatrixUpdates::exchange(const Moves& moves, bool to_owners) {
  if (!plan_.crosses_parts() && plan_.groups().empty()) return;
  const auto go = [&](comm::Communicator& group, Messages messages) {
    if (!to_owners)
      for (auto& m : messages) m.kind = m.kind == Kind::send ? Kind::receive : Kind::send;
    comm::exchange_as(group, c_.communication, "all_to_all", messages);
  };
  const auto parts = [&] {
    if (plan_.crosses_parts()) go(c_.world.group({plan::Axis::tensor}), moves.across_parts);
  };
  c_.communication.wait(c_.compute.record());
  if (to_owners) parts();
  for (std::size_t g = 0; g < plan_.groups().size(); ++g) go(c_.world.group(plan_.groups()[g]), moves.across_shards[g]);
  if (!to_owners) parts();
  c_.join(c_.communication.record());
}

void MatrixUpdates::orthogonalise(const Job& job) {
  const auto& m = *job.matrix;
  const auto rows = m.rows(), cols = m.cols();
  const auto scale = static_cast<float>(0.2 * std::sqrt(static_cast<double>(std::max(rows, cols))));
  if (m.parts == 1 || m.dim == 0) return kernels::newton_schulz(c_.compute, job.parts.reshaped({rows, cols}), scale);
  tensor::ArenaScope scope(c_.compute.scratch());
  const auto whole = scratch(rows * cols).reshaped({rows, cols});
  const auto width = cols / m.parts;
  const auto slices = [&](const auto& copy) {
    for (int p = 0; p < m.parts; ++p)
      copy(flat_range(job.parts, p * m.held(), m.held()).reshaped({rows, width}), whole.columns(p * width, width));
  };
  slices([&](base::View part, base::View columns) { kernels::copy(c_.compute, part, columns); });
  kernels::newton_schulz(c_.compute, whole, scale);
  slices([&](base::View part, base::View columns) { kernels::copy(c_.compute, columns, part); });
}

void MatrixUpdates::orthogonalise(GradientReduction& gradients) {
  if (plan_.matrices().empty()) return;
  auto& memory = c_.compute.scratch();
  {  // all ranks take what the plan has for the rank that needs most
    tensor::ArenaScope planned(memory);
    memory.allocate_bytes(plan_.workspace_bytes(c_.compute.device().kind));
  }
  tensor::ArenaScope scope(memory);
  const auto all = moves(gradients);
  exchange(all, true);
  for (const auto& [gradient, matrix] : all.here) kernels::copy(c_.compute, gradient, matrix);
  for (const auto& job : all.jobs) orthogonalise(job);
  for (const auto& [gradient, matrix] : all.here) kernels::copy(c_.compute, matrix, gradient);
  exchange(all, false);
}

}  // namespace trainyard::params
