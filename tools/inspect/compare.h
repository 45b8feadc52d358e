// Several runs beside one another.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "tools/inspect/history.h"
#include "tools/inspect/report.h"

#include <optional>
#include <string>
#include <vector>

namespace trainyard::inspect {

struct NamedHistory {
  std::string name;  // short, no two alike
  std::string path;
  History history;
  // Of the newest checkpoint whose description is whole; of a file alone none.
  std::optional<checkpoint::RunState> state = {};
};

// InputError for a path that is no run with metrics.
std::vector<NamedHistory> read_histories(const std::vector<std::string>& paths);

// A step that two runs did otherwise: the first one at which losses, validations or gradient norms differ in any bit.
struct Difference {
  std::int64_t step = 0;
  std::string key;
  double first = 0, second = 0;
};
struct Comparison {
  std::int64_t common = 0;       // steps that both have
  std::int64_t last = -1;        // the last of these; -1: there is none
  std::optional<Difference> at;  // nothing: equal for all common steps
};
Comparison compare(const History& a, const History& b);

// Chart, table, and where each differs from the first.
Report comparison_report(const std::vector<NamedHistory>& runs, Across across);

}  // namespace trainyard::inspect
