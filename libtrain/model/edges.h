// Edges: where values cross between the ranks that share every layer. Each is trivial for one rank, and the backward of
// a block goes back over the adjoints of those of its forward: gathering rows and adding up partial sums are adjoint
// (Shoeybi et al. 2019, "Megatron-LM", f and g; Korthikanti et al. 2022, "Reducing activation recomputation", g and
// g-bar for rows that are shared).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/micro_shape.h"
#include "libtrain/plan/model_config.h"

#include <cstdint>

namespace trainyard::model {

// The tensor ranks of one data coordinate. With sequence parallelism they share the rows of the residual stream: each
// has an equal run of neighbouring rows. Everything is in the order of the context's compute Exec; collective.
class Edges {
 public:
  Edges() = default;  // one rank
  // Of the context's world; takes its staging (plan::tensor_staging_bytes) from the context's arena.
  Edges(params::StoreContext& context, const plan::ModelConfig& model, const plan::MicroShape& shape);

  int ranks() const { return context_ == nullptr ? 1 : group().size(); }
  int rank() const { return context_ == nullptr ? 0 : group().rank(); }
  bool shares_rows() const { return shares_rows_; }
  std::int64_t stream_rows(std::int64_t rows) const { return shares_rows_ ? rows / ranks() : rows; }
  std::int64_t first_row(std::int64_t rows) const { return shares_rows_ ? rank() * (rows / ranks()) : 0; }

  // `rows`, [stream rows, c] dense: those of all ranks. Where rows are shared they are gathered in `all`, [n, c], of
  // which `rows` may be the own part; else `rows` itself is returned and `all` may be empty.
  base::View all_rows(base::View rows, base::View all) const;
  // The same begun now: the rows are there for the compute Exec once `wait` was given what this returns.
  tensor::Event begin_all_rows(base::View rows, base::View all) const;
  void wait(const tensor::Event& event) const;
  // out = the sum over ranks of `partial` in the tree of lanes (kernels/lane_sum), plus bias, rounded once. partial
  // [partials * n, h] in the accumulation dtype, the sums that this rank has one after the other (plan::Widths); out
  // [stream rows, h]; they may be the same view. Several ranks only.
  void add_up(base::View partial, base::View bias, base::View out) const {
    finish_add_up(begin_add_up(partial), partial.count(), bias, out);
  }
  // In two steps, between which the compute Exec may work on other things: the exchange, during which `partial` must
  // not be written, and the sum. One at a time: there is one staging.
  tensor::Event begin_add_up(base::View partial) const;
  void finish_add_up(const tensor::Event& exchanged, std::int64_t elements, base::View bias, base::View out) const;
  // Of each element of `values`, [n, h], one rank has the value and the others have zero bits: `out`, [stream rows, h],
  // gets the values, bit for bit. out may be `values` where rows are not shared. Several ranks only.
  void merge(base::View values, base::View out) const;
  // The views of all ranks, one after the other.
  void gather(base::View mine, base::View all) const;

 private:
  comm::Communicator& group() const { return context_->world.group({plan::Axis::tensor}); }
  template <class Call> tensor::Event cross(const Call& call) const;
  params::StoreContext* context_ = nullptr;
  bool shares_rows_ = false;
  std::int64_t partials_ = 1;
  base::View staging_;  // of the sums of all ranks in their order
};

const Edges& one_rank();  // trivial edges

}  // namespace trainyard::model
