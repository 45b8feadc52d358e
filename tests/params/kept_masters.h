// The masters of a rank's shard in f32, in whatever form a store keeps them.
#pragma once

#include "libtrain/params/optimizer.h"
#include "tests/params/plain_model.h"

namespace trainyard::test {

inline void write_masters(params::OptimizerStates& states, int flat_group, const Floats& from, std::int64_t first,
                          std::int64_t count) {
  states.masters().write(flat_group, 0, base::ConstView::of(from.data() + first, {count}));
}

// Read in two parts.
inline Floats masters_of(params::OptimizerStates& states, int flat_group, std::int64_t count) {
  Floats out(static_cast<std::size_t>(count), 7);
  const auto all = base::View::of(out.data(), {count});
  const auto some = count / 3;
  states.masters().read(flat_group, 0, all.elements(0, some));
  states.masters().read(flat_group, some, all.elements(some, count - some));
  return out;
}

inline std::string difference_of_masters(params::OptimizerStates& states, int flat_group, const Floats& want,
                                         std::int64_t first, std::int64_t count) {
  auto masters = masters_of(states, flat_group, count);
  return difference(base::View::of(masters.data(), {count}), want, first);
}

}  // namespace trainyard::test
