// The mean of several checkpoints of one model, as people take it over the last ones of a run.
#pragma once

#include "libtrain/checkpoint/reshard.h"

#include <string>
#include <vector>

namespace trainyard::checkpoint {

// Weights are the mean of the masters (of an f32 checkpoint its model), added up in f64 in the order of `sources` and
// rounded once; everything else, the moments of the optimizer and the counters among it, is that of the last source.
// InputError naming the tensor when names or shapes differ. Sources are checked as they are read; what was written is
// read back and compared with what was computed before it gets its name. For the rest as reshard().
ReshardResult average(const std::vector<const Reader*>& sources, const std::string& destination,
                      const NewLayout& layout, const ReshardOptions& options);

}  // namespace trainyard::checkpoint
