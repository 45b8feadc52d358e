// Comparison of several runs.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "tools/inspect/history.h"
#include "tools/inspect/report.h"

#include <optional>
#include <string>
#include <vector>

namespace trainyard::inspect {

struct NamedHistory {
  std::string name;  // short and unique
  std::string path;
  History history;
  // The state of the newest checkpoint whose manifest is whole; none for a metrics file alone.
  std::optional<checkpoint::RunState> state = {};
};

// Reads the metrics of runs. InputError for a path that is no run with metrics.
std::vector<NamedHistory> read_histories(const std::vector<std::string>& paths);

// The first step at which two runs differ: losses, validations or gradient norms differ in any bit.
struct Difference {
  std::int64_t step = 0;
  std::string key;
  double first = 0, second = 0;
};
struct Comparison {
  std::int64_t common = 0;       // number of steps that both have
  std::int64_t last = -1;        // last step that both have; -1 if there is none
  std::optional<Difference> at;  // unset: equal for all common steps
};
Comparison compare(const History& a, const History& b);

// A chart, a table, and where each run differs from the first.
Report comparison_report(const std::vector<NamedHistory>& runs, Across across);

}  // namespace trainyard::inspect
