// Ranges travel as messages; what a rank has itself is copied.
#include "libtrain/comm/segments.h"

#include "kernels/fold/fold.h"
#include "libtrain/base/error.h"
#include "libtrain/comm/entry.h"

#include <algorithm>
#include <vector>

namespace trainyard::comm {

namespace {

base::View range(base::View flat, std::int64_t first, std::int64_t count) {
  return base::View(static_cast<char*>(flat.data) + first * base::size_of(flat.dtype), flat.dtype, {count},
                    flat.device);
}

}  // namespace

void exchange_as(Communicator& comm, tensor::Exec& exec, const char* name, std::span<const Transfer> transfers) {
  exec.run([&comm, name] { comm.ledger().set_alias(name); });
  comm.exchange(exec, transfers);
  exec.run([&comm] { comm.ledger().set_alias(nullptr); });
}

void all_gather_range(Communicator& comm, tensor::Exec& exec, base::View piece, base::View whole, std::int64_t first,
                      std::int64_t count) {
  TRAINYARD_ASSERT(whole.count() == comm.size() * piece.count() && first >= 0 && first + count <= piece.count(),
                   "[{}, {}) of pieces of {} in {}", first, first + count, piece.count(), whole.count());
  const auto mine = range(piece, first, count);
  std::vector<Transfer> transfers;
  for (int k = 1; k < comm.size(); ++k) {
    const int to = (comm.rank() + k) % comm.size(), from = (comm.rank() - k + comm.size()) % comm.size();
    transfers.push_back({Transfer::Kind::receive, from, range(whole, from * piece.count() + first, count)});
    transfers.push_back({Transfer::Kind::send, to, mine});
  }
  const auto own = range(whole, comm.rank() * piece.count() + first, count);
  if (own.data != mine.data) tensor::copy(exec, mine, own);
  exchange_as(comm, exec, "all_gather", transfers);
}

void ordered_reduce_scatter_range(Communicator& comm, tensor::Exec& exec, base::View in, base::View staging,
                                  base::View sum, base::FoldRound round, int contributors, std::int64_t first,
                                  std::int64_t count) {
  ordered_reduce_scatter_several(comm, exec, in, 1, staging, sum, round, contributors, first, count);
}

void ordered_reduce_scatter_several(Communicator& comm, tensor::Exec& exec, base::View in, int each, base::View staging,
                                    base::View sum, base::FoldRound round, int contributors, std::int64_t first,
                                    std::int64_t count) {
  const auto piece = sum.count(), whole = comm.size() * piece;
  const auto taking_part = [&](int rank) { return std::clamp(contributors - rank * each, 0, each); };
  const int mine = taking_part(comm.rank());
  TRAINYARD_ASSERT(
      each >= 1 && contributors >= 1 && contributors <= comm.size() * each && first >= 0 && first + count <= piece &&
          (mine == 0 || in.count() >= mine * whole) && (comm.size() == 1 || staging.count() >= contributors * count),
      "[{}, {}) of pieces of {}, {} contributors of {}", first, first + count, piece, contributors, comm.size() * each);
  if (comm.size() == 1) {
    exec.run([&comm] { Entry entry(comm.ledger(), "ordered_reduce_scatter", 0); });
    const base::View rows(in.data, sum.dtype, {contributors, piece}, sum.device);
    return kernels::fold(exec, rows.columns(first, count), range(sum, first, count), round);
  }
  std::vector<Transfer> transfers;
  for (int k = 1; k < comm.size(); ++k) {
    const int to = (comm.rank() + k) % comm.size(), from = (comm.rank() - k + comm.size()) % comm.size();
    for (int i = 0; i < taking_part(from); ++i)
      transfers.push_back({Transfer::Kind::receive, from, range(staging, (from * each + i) * count, count)});
    for (int i = 0; i < mine; ++i)
      transfers.push_back({Transfer::Kind::send, to, range(in, i * whole + to * piece + first, count)});
  }
  for (int i = 0; i < mine; ++i)
    tensor::copy(exec, range(in, i * whole + comm.rank() * piece + first, count),
                 range(staging, (comm.rank() * each + i) * count, count));
  exchange_as(comm, exec, "ordered_reduce_scatter", transfers);
  kernels::fold(exec, base::View(staging.data, sum.dtype, {contributors, count}, sum.device), range(sum, first, count),
                round);
}

}  // namespace trainyard::comm
