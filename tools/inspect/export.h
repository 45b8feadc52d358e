// Export of a run's metrics for other programs.
#pragma once

#include <string>

namespace trainyard::inspect {

// Writes an event file for TensorBoard into `folder`, and creates the folder. Each number of each line is a scalar with
// the tag of its key (tag_of), and of each set with the set's name behind it ("loss/train/SET"), at the step and wall
// time of the line. A line without a time gets the time of the previous one. An earlier file of this function is
// replaced as a whole; nothing else is touched. Returns the path of the file. InputError for a damaged line that is not
// the last, and if there are no lines. UsageError if a file of another program has its name.
std::string export_tensorboard(const std::string& run, const std::string& folder);

// Writes what print_metrics_csv prints into a file, with the same rules about replacing. Returns its path.
std::string export_csv(const std::string& run, const std::string& file);

// Tags such as "loss/train", "loss/validation", "throughput/tokens_per_second", "seconds/step": TensorBoard groups by
// the part before the slash.
std::string tag_of(const std::string& key);

}  // namespace trainyard::inspect
