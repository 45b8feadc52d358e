// Metrics as CSV, for other programs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::inspect {

// Prints the metrics of a run's folder or of a metrics file on stdout: a header, then one row for each line. A cell is
// empty where a line lacks the key. Columns are `step`, then every key of any line in the order of first appearance, so
// files of older versions have fewer. Stops when the reader has gone. InputError, before anything is printed, if there
// are no lines or a line before the last is damaged.
void print_metrics_csv(const std::string& path);

// The same for a metrics file: passes the text piece by piece to `take`, until `take` throws.
void write_metrics_csv(const std::string& file, const std::function<void(std::string_view part)>& take);

}  // namespace trainyard::inspect
