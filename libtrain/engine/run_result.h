// RunResult: what a run has reached when it ends.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/size_table.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace trainyard::engine {

struct RunResult {
  base::ExitCode code = base::ExitCode::done;
  std::int64_t step = 0;
  std::optional<double> loss = {};          // of the last step of this start that has one; none if no step has
  std::int64_t steps_done = 0;              // by this start
  std::string checkpoint;                   // newest that was read or published; empty: none
  std::string resume;                       // value of --resume that continues from here; empty: auto finds it
  SizeTable memory_report, traffic_report;  // report.txt in the output folder has them with exact bytes
  SizeTable disk_report = {};               // likewise; without rows if the plan has nothing on disk
  SizeTable link_report = {};               // likewise, of a GPU that offloads
  std::string step_profile = {};            // tables as text, of this rank (config.profile_step)
  double save_seconds = 0;  // from the snapshot to the published checkpoint, of the newest save; 0: none by this start
  std::shared_ptr<const base::Error> trace_error = {};  // why there is no trace; the run is whole without it
  std::string disk_rates = {};  // one line: what the steps of this rank reached (DiskWatch::text); else empty
};

}  // namespace trainyard::engine
