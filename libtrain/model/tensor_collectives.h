// TensorCollectives: the collectives of a block between its tensor-parallel ranks. With one rank each collective does
// nothing. The backward pass of a block calls the adjoints of the collectives of its forward pass. Gathering rows and
// adding up partial sums are adjoint (f and g of Shoeybi et al. 2019, "Megatron-LM"; with sequence parallelism g and
// g-bar of Korthikanti et al. 2022, "Reducing activation recomputation").
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>

namespace trainyard::model {

// The tensor-parallel ranks of one data coordinate. With sequence parallelism each rank holds an equal range of
// neighbouring rows of the hidden states; otherwise each holds all of them. Collective: all ranks make the same calls.
// A call without elements sends nothing: all ranks have the same empty micro-batch. Everything runs in the order of the
// rank's compute Exec.
class TensorCollectives {
 public:
  TensorCollectives() = default;  // one rank
  // On the world of `execs`. Takes plan::tensor_staging_bytes from `staging`.
  TensorCollectives(params::RankExecs& execs, tensor::Arena& staging, const plan::ModelConfig& model,
                    const plan::MicroShape& shape);

  int ranks() const { return execs_ == nullptr ? 1 : group().size(); }
  int rank() const { return execs_ == nullptr ? 0 : group().rank(); }
  bool sequence_parallel() const { return sequence_parallel_; }
  std::int64_t own_rows(std::int64_t rows) const { return sequence_parallel_ ? rows / ranks() : rows; }
  std::int64_t first_row(std::int64_t rows) const { return sequence_parallel_ ? rank() * (rows / ranks()) : 0; }

  // All-gather of `rows`, [own rows, c], dense. With sequence parallelism the rows of all ranks are gathered into
  // `all`, [n, c], of which `rows` may be the own part. Otherwise `rows` is returned, and `all` may be empty.
  base::View all_rows(base::View rows, base::View all) const;
  // Begins the same. The compute Exec sees the rows once `wait` was given the event that this returns.
  tensor::Event begin_all_rows(base::View rows, base::View all) const;
  void wait(const tensor::Event& event) const;
  // out = the sum over ranks of `partial`, in the order of the reduction lanes (kernels/lane_sum), plus bias, rounded
  // once. It is a reduce-scatter with sequence parallelism, an all-reduce otherwise. partial [partials * n, h] in the
  // accumulation dtype: the sums of this rank one after the other (plan::Widths). out [own rows, h]; both may be the
  // same view. Only for several ranks.
  void add_up(base::View partial, base::View bias, base::View out) const {
    finish_add_up(begin_add_up(partial), partial.count(), bias, out);
  }
  // The same in two steps: the exchange, during which `partial` must not be written, and the sum. The compute Exec may
  // do other work in between. One exchange at a time, since there is one staging memory.
  tensor::Event begin_add_up(base::View partial) const;
  void finish_add_up(const tensor::Event& exchanged, std::int64_t elements, base::View bias, base::View out) const;
  // values [n, h]: of each element one rank has the value, and the other ranks have zero bits. out [own rows, h] gets
  // the values bit for bit, and may be `values` without sequence parallelism. Only for several ranks.
  void merge(base::View values, base::View out) const;
  // All-gather of the views of all ranks, one after the other.
  void gather(base::View mine, base::View all) const;

 private:
  comm::Communicator& group() const { return execs_->world.group({plan::Axis::tensor}); }
  template <class Call> tensor::Event cross(const Call& call) const;
  params::RankExecs* execs_ = nullptr;
  bool sequence_parallel_ = false;
  std::int64_t partials_ = 1;
  base::View staging_;  // sums of all ranks, in their order
};

const TensorCollectives& one_rank();  // collectives of one rank: each does nothing

}  // namespace trainyard::model
