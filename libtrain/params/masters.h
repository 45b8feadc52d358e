// Masters: the f32 master weights of a store, in the form that the plan says (plan/spec/master_format.h).
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/params/context.h"
#include "libtrain/params/update_rule.h"
#include "libtrain/params/weights.h"

#include <cstdint>
#include <vector>

namespace trainyard::params {

// f32 working copies are their own masters. Narrow ones have masters in f32 beside them, or a remainder
// (kernels/update/remainder.h), with which they are the masters. This rank has the masters of what it updates: whole
// flat groups with ZeRO 0, else its shards. Of a frozen flat group the working copies are the masters, however narrow.
class Masters {
 public:
  Masters(StoreContext& context, Weights& weights) : c_(context), weights_(weights) {}
  void allocate(int flat_group);  // once for each flat group, in their order

  // Sets what an update works on: parameter, working copy and remainder. `range` is of what this rank updates, and
  // `working` has the weights of that range.
  void place(int flat_group, kernels::Range range, base::View working, UpdatedRange& updated) const;

  // Whether masters are somewhere as f32, and where: this rank's shard.
  bool are_f32() const { return c_.shape.master == plan::MasterFormat::f32; }
  base::View shard(int flat_group) const;                                         // empty if it is elsewhere or narrow
  base::View beside(int flat_group) const { return base::at(f32_, flat_group); }  // of what this rank updates
  // Elements of this rank's shard, in f32, in whatever form they are kept. `to` and `from` may be on the host. In the
  // order of the compute Exec. write() of a remainder also writes the working copies.
  void read(int flat_group, std::int64_t first, base::View to) const;
  void write(int flat_group, std::int64_t first, base::ConstView from);

  // A frozen flat group whose weights are narrow.
  bool is_narrow_and_frozen(int u) const { return base::is_narrow(c_.shape.working) && c_.is_frozen(u); }
  bool beside_working() const { return are_f32() && base::is_narrow(c_.shape.working); }

  // After the shard of a flat group was written: makes its working copy.
  void make_working_copies(int flat_group);
  // With ZeRO 0: gathers the shards of a flat group, in the order of the communication Exec, without working copies.
  // Collective.
  void gather(int flat_group);

 private:
  bool whole() const { return c_.shape.zero == 0; }
  std::int64_t own_begin(int flat_group) const {
    return whole() ? c_.group(flat_group).rank() * c_.layout(flat_group).shard : 0;
  }
  // body(elements [first, first + count) of the call, their working copies and remainder, f32 memory on the device)
  template <class Body>
  void over_scratch(int flat_group, std::int64_t first, std::int64_t count, const Body& body) const;

  StoreContext& c_;
  Weights& weights_;
  std::vector<base::View> f32_;                 // per flat group, if they are beside the working copies
  std::vector<kernels::Remainder> remainders_;  // per flat group, if they are not f32
};

}  // namespace trainyard::params
