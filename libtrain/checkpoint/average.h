// Averaging the weights of several checkpoints of one model, as is common for the last ones of a run.
#pragma once

#include "libtrain/checkpoint/reshard.h"

#include <string>
#include <vector>

namespace trainyard::checkpoint {

// Writes a new checkpoint whose weights are the mean of the sources' master weights; in an f32 checkpoint the model is
// the master. The mean is summed in f64 in the order of `sources` and rounded once. Everything else, such as the
// optimizer moments and counters, comes from the last source. Throws InputError naming the tensor when names or shapes
// differ. Sources are checked as they are read. Before the checkpoint gets its name, everything written is read back
// and compared with what was computed. All else is as for reshard().
ReshardResult average(const std::vector<const Reader*>& sources, const std::string& destination,
                      const NewLayout& layout, const ReshardOptions& options);

// Writes a new checkpoint of weights alone: those of the moving average that the run of the source keeps
// (plan::average_state). InputError if the source has none. All else is as above.
ReshardResult moving_average(const Reader& source, const std::string& destination, NewLayout layout,
                             const ReshardOptions& options);

}  // namespace trainyard::checkpoint
