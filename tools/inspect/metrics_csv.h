// Metrics as CSV, for other programs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::inspect {

// The metrics of a run's folder or of a metrics file on stdout: a header, then one row for each line, empty where a
// line lacks a key. Columns: `step`, then every key of any line in the order in which it first appears, so the files of
// older versions have fewer. Stops when nobody reads any more. InputError when there are none, or when a line is
// damaged that is not the last, before anything is printed.
void print_metrics_csv(const std::string& path);

// The same of a file, for whoever takes the parts; until `take` throws.
void write_metrics_csv(const std::string& file, const std::function<void(std::string_view shard)>& take);

}  // namespace trainyard::inspect
