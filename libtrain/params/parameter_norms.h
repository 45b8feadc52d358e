// ParameterNorms: the norm of each whole parameter and of its update, exact over all ranks that hold parts of it.
#pragma once

#include "kernels/update/lamb.h"
#include "libtrain/base/index.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/cost/parameter_norms.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::params {

// Whatever the parallel layout and the ZeRO stage, the sums are those of the logical parameters: squares are added as
// integers, each element on one rank alone.
class ParameterNorms {
 public:
  // Takes plan::parameter_norm_bytes from the optimizer arena.
  explicit ParameterNorms(StoreContext& context);

  // A parameter, and the elements of it in this rank's shard of the flat group, that this rank counts.
  struct Counted {
    std::size_t parameter;
    std::int64_t at, count;  // in the shard
  };
  std::span<const Counted> counted(int flat_group) const { return base::at(counted_, flat_group); }

  void begin();  // of a step: sums are zero
  // Adds the squares of a counted part. The views are those of `part` alone; states in the order of kernels::Lamb.
  struct Part {
    base::ConstView parameter;
    std::span<const base::View> states;
  };
  void add(const kernels::Lamb& rule, int flat_group, const Counted& counted, const Part& part);
  // The digits of both sums of a parameter, i64 [plan::digits_of_norms], for parts that are added otherwise.
  base::View squares(int flat_group, std::size_t parameter) const;
  // Adds up the sums of all ranks. Collective.
  void agree();
  // The trust ratios, after agree(). ratio: of a parameter of a flat group, in memory of the device.
  void make_ratios();
  const float* ratio(int flat_group, std::size_t parameter) const;

 private:
  struct Section {
    plan::NormSection is;
    base::View squares, ratios;
  };
  struct Rows {
    std::size_t section = 0;
    std::vector<std::int64_t> of_parameters;  // -1: the optimizer does not update it
  };
  void add_up(Section& section, plan::Axes axes);

  StoreContext& c_;
  std::vector<Section> sections_;
  std::vector<Rows> rows_;                     // per flat group
  std::vector<std::vector<Counted>> counted_;  // per flat group
};

}  // namespace trainyard::params
