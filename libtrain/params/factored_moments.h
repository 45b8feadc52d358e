// FactoredMoments: states of rows and columns, and what an update by them needs of each whole parameter, exact over all
// ranks that hold parts of it.
#pragma once

#include "kernels/adafactor/adafactor.h"
#include "libtrain/base/index.h"
#include "libtrain/params/context.h"
#include "libtrain/params/parameter_norms.h"
#include "libtrain/plan/cost/factored_moments.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::params {

// Every rank that holds a part of a flat group has the states of all rows and columns of its logical parameters. All of
// them compute the same from sums of squares, which are added as integers, each element on one rank alone.
class FactoredMoments {
 public:
  // Takes plan::factored_moment_bytes from the optimizer arena.
  explicit FactoredMoments(StoreContext& context);

  // A state of one parameter, f32: `state` counts states of rows and columns, in the order of OptimizerKind::states.
  base::View state(std::size_t state, int flat_group, std::size_t parameter) const;

  // Adds up the squares of the rows and columns of a flat group over all ranks, and updates its states and the factors
  // of its update. `shard`: the gradient sums of this rank's shard; `counted`: as of ParameterNorms. Collective.
  void update(const kernels::Adafactor& rule, int flat_group, base::ConstView shard,
              std::span<const ParameterNorms::Counted> counted);

  // Elements of one parameter, which begin at element `first` of the part that this rank holds. `count` leaves out
  // stored rows beyond the logical ones, which come last and stay zero.
  struct Elements {
    kernels::HeldElements held;
    base::ConstView row_factors, column_factors;  // of the held rows and columns; valid after update()
    std::int64_t count = 0;
  };
  Elements elements(int flat_group, std::size_t parameter, std::int64_t first, std::int64_t count) const;

 private:
  // Where the rows and columns of a parameter are among those of its flat group, and which of them this rank holds.
  struct Place {
    plan::RowsAndColumns at, count;
    plan::RowsAndColumns held_from, held;  // rows and columns of the logical parameter
    bool vector = false, updated = true;
  };
  struct Group {
    std::vector<base::View> states;  // f32 [rows] or [columns] of the flat group
    base::View row_factors, column_factors;
    plan::RowsAndColumns count;
    std::vector<Place> places;  // of parameters
  };
  base::View row_digits(const Group& group) const { return digits_.row_range(0, group.count.rows); }
  base::View column_digits(const Group& group) const {
    return digits_.row_range(group.count.rows, group.count.columns);
  }
  void add_squares(const kernels::Adafactor& rule, int flat_group, base::ConstView shard,
                   std::span<const ParameterNorms::Counted> counted);
  void add_ranks(int flat_group);

  StoreContext& c_;
  std::vector<Group> groups_;
  base::View digits_;  // i64 [rows, then columns][digits], of one flat group after the other
};

}  // namespace trainyard::params
