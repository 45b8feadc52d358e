// Why a rank ended the job: the file exit/rank-00003.json of a run, which keeps the cause where a launcher hides it.
#pragma once

#include <string>

namespace trainyard::comm {

// Writes {"rank", "host", "exit_code", "reason", "time", "job"} to FOLDER/rank-00003.json. "job" is Slurm's job and
// step; the key is left out without Slurm. Makes the folder if its parent exists. Never throws: the reason is on stderr
// too.
void write_reason(const std::string& folder, int rank, int exit_code, const std::string& reason) noexcept;

// Removes the files that write_reason has left in `folder`, and nothing else. So what is found there later belongs to
// this run. Removes the folder too if it is empty then.
void forget_reasons(const std::string& folder);

}  // namespace trainyard::comm
