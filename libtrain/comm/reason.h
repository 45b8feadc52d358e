// Why a rank ended the job: exit/rank-00003.json of a run, so that the cause outlives a launcher that hides it.
#pragma once

#include <string>

namespace trainyard::comm {

// Writes {"rank", "host", "exit_code", "reason", "time", "job"} to FOLDER/rank-00003.json (job: Slurm's job and step,
// absent without). The folder is made where its parent is there. Never throws: the reason is on stderr too.
void write_reason(const std::string& folder, int rank, int exit_code, const std::string& reason) noexcept;

// Removes what write_reason has left in `folder`, and nothing else: what is found there later is of this run. The
// folder goes when it is empty.
void forget_reasons(const std::string& folder);

}  // namespace trainyard::comm
