// Tensor-parallel collectives, joined by the compute Exec.
#include "libtrain/model/tensor_collectives.h"

#include "kernels/lane_sum/lane_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/segments.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/spec/widths.h"

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

const TensorCollectives& one_rank() {
  static const TensorCollectives none;
  return none;
}

TensorCollectives::TensorCollectives(params::RankExecs& execs, tensor::Arena& staging, const plan::ModelConfig& model,
                                     const plan::MicroShape& shape) {
  if (execs.world.topology.size(plan::Axis::tensor) == 1) return;
  execs_ = &execs;
  sequence_parallel_ = shape.sequence_parallel;
  partials_ = plan::Widths(model, shape.tensor).partials;
  staging_ = staging.allocate(shape.accumulation(), {plan::tensor_staging_elements(model, shape)});
}

template <class Call> tensor::Event TensorCollectives::cross(const Call& call) const {
  auto& communication = execs_->communication;
  communication.wait(execs_->compute.record());
  call(group(), communication);
  auto done = communication.record();
  execs_->transfers.let_some_follow();
  return done;
}

void TensorCollectives::wait(const tensor::Event& event) const {
  if (execs_ != nullptr) execs_->join(event);
}

void TensorCollectives::gather(base::View mine, base::View all) const {
  if (mine.count() == 0) return;
  wait(cross([&](auto& group, auto& exec) { group.all_gather(exec, flat(mine), flat(all)); }));
}

tensor::Event TensorCollectives::begin_all_rows(base::View rows, base::View all) const {
  if (!sequence_parallel_ || rows.count() == 0) return {};
  return cross([&](auto& group, auto& exec) { group.all_gather(exec, flat(rows), flat(all)); });
}

base::View TensorCollectives::all_rows(base::View rows, base::View all) const {
  if (!sequence_parallel_) return rows;
  wait(begin_all_rows(rows, all));
  return all;
}

tensor::Event TensorCollectives::begin_add_up(base::View partial) const {
  const auto all = partial.count(), each = all / partials_, shard = each / ranks();
  if (all == 0) return {};
  TRAINYARD_ASSERT(shard * ranks() * partials_ == all && all <= staging_.count(), "{} elements over {} ranks", all,
                   ranks());
  const auto sums = flat(partial), received = params::flat_range(staging_, 0, all);
  if (partials_ == 1)
    return cross([&](auto& group, auto& exec) {
      const std::vector<std::int64_t> counts(base::size(ranks()), shard);
      group.all_to_all(exec, sums, counts, received, counts);
    });
  std::vector<comm::Transfer> transfers;
  for (int r = 0; r < ranks(); ++r)
    for (std::int64_t l = 0; l < partials_; ++l) {
      const auto mine = params::flat_range(sums, l * each + r * shard, shard),
                 theirs = params::flat_range(received, (r * partials_ + l) * shard, shard);
      transfers.push_back({comm::Transfer::Kind::send, r, mine});
      transfers.push_back({comm::Transfer::Kind::receive, r, theirs});
    }
  return cross([&](auto& group, auto& exec) { comm::exchange_as(group, exec, "all_to_all", transfers); });
}

// Every rank adds up an equal range of elements. Without sequence parallelism the ranges are then gathered.
void TensorCollectives::finish_add_up(const tensor::Event& exchanged, std::int64_t elements, base::View bias,
                                      base::View out) const {
  if (elements == 0) return;
  wait(exchanged);
  const std::int64_t sums = ranks() * partials_, shard = elements / sums;
  const auto mine = sequence_parallel_ ? flat(out) : params::flat_range(flat(out), rank() * shard, shard);
  kernels::lane_sum(execs_->compute, params::flat_range(staging_, 0, elements).reshaped({sums, shard}), bias,
                    rank() * shard, mine);
  if (!sequence_parallel_) gather(mine, out);
}

void TensorCollectives::merge(base::View values, base::View out) const {
  if (values.count() == 0) return;
  wait(cross([&](auto& group, auto& exec) {
    if (sequence_parallel_) group.reduce_scatter(exec, words(values), words(out));
    else group.all_reduce(exec, words(out), comm::Reduction::sum);
  }));
}

}  // namespace trainyard::model
