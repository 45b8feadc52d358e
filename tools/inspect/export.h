// The metrics of a run for other programs.
#pragma once

#include <string>

namespace trainyard::inspect {

// An event file in `folder` that TensorBoard reads, made with the folder: a scalar for each number of each line under
// the tag of its key (tag_of), at the step and the wall time of the line; a line without a time has that of the one
// before. A file that this function wrote there before is replaced, whole; nothing else is touched. Returns its path.
// InputError for a damaged line that is not the last, and when there is none; UsageError where somebody else's file has
// its name.
std::string export_tensorboard(const std::string& run, const std::string& folder);

// What print_metrics_csv prints, as a file: the same rules about what is replaced. Returns its path.
std::string export_csv(const std::string& run, const std::string& file);

// "loss/train", "loss/validation", "throughput/tokens_per_second", "seconds/step": TensorBoard groups by what is before
// the slash.
std::string tag_of(const std::string& key);

}  // namespace trainyard::inspect
