// Collectives of the tensor group, joined by the compute Exec.
#include "libtrain/model/edges.h"

#include "kernels/lane_sum/lane_sum.h"
#include "libtrain/base/error.h"

#include <vector>

namespace trainyard::model {

namespace {

base::View flat(base::View v) { return v.reshaped({v.count()}); }

// The same memory as 32-bit words.
base::View words(base::View v) {
  TRAINYARD_ASSERT(v.dense() && v.bytes() % 4 == 0, "{} bytes as words", v.bytes());
  return base::View(v.data, base::DType::i32, {v.bytes() / 4}, v.device);
}

}  // namespace

const Edges& one_rank() {
  static const Edges none;
  return none;
}

Edges::Edges(params::StoreContext& context, bool sequence_parallel, std::int64_t staging_elements,
             base::DType accumulation) {
  if (context.world.group({plan::Axis::tensor}).size() == 1) return;
  context_ = &context;
  shares_rows_ = sequence_parallel;
  staging_ = context.staging.allocate(accumulation, {staging_elements});
}

template <class Call> tensor::Event Edges::cross(const Call& call) const {
  auto& communication = context_->communication;
  communication.wait(context_->compute.record());
  call(group(), communication);
  auto done = communication.record();
  context_->transfers.let_some_follow();
  return done;
}

void Edges::wait(const tensor::Event& event) const {
  if (context_ != nullptr) context_->join(event);
}

void Edges::gather(base::View mine, base::View all) const {
  wait(cross([&](auto& group, auto& exec) { group.all_gather(exec, flat(mine), flat(all)); }));
}

tensor::Event Edges::begin_all_rows(base::View rows, base::View all) const {
  if (!shares_rows_) return {};
  return cross([&](auto& group, auto& exec) { group.all_gather(exec, flat(rows), flat(all)); });
}

base::View Edges::all_rows(base::View rows, base::View all) const {
  if (!shares_rows_) return rows;
  wait(begin_all_rows(rows, all));
  return all;
}

tensor::Event Edges::begin_add_up(base::View partial) const {
  const auto piece = partial.count() / ranks();
  TRAINYARD_ASSERT(piece * ranks() == partial.count() && partial.count() <= staging_.count(),
                   "{} elements over {} ranks", partial.count(), ranks());
  const auto received = params::flat_range(staging_, 0, partial.count());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks()), piece);
  return cross([&](auto& group, auto& exec) { group.all_to_all(exec, flat(partial), counts, received, counts); });
}

// Every rank adds up an equal run of elements; where rows are not shared these are then gathered.
void Edges::finish_add_up(const tensor::Event& exchanged, std::int64_t elements, base::View bias,
                          base::View out) const {
  wait(exchanged);
  const std::int64_t t = ranks(), piece = elements / t;
  const auto mine = shares_rows_ ? flat(out) : params::flat_range(flat(out), rank() * piece, piece);
  kernels::lane_sum(context_->compute, params::flat_range(staging_, 0, elements).reshaped({t, piece}), bias,
                    rank() * piece, mine);
  if (!shares_rows_) gather(mine, out);
}

void Edges::merge(base::View values, base::View out) const {
  wait(cross([&](auto& group, auto& exec) {
    if (shares_rows_) group.reduce_scatter(exec, words(values), words(out));
    else group.all_reduce(exec, words(out), comm::Reduction::sum);
  }));
}

}  // namespace trainyard::model
