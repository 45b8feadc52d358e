// The command that resumes a run that was stopped.
#pragma once

#include "libtrain/base/fields.h"

#include <string>
#include <vector>

namespace trainyard::tools {

// `words` quoted for a shell, without the flags that belong to one start alone: --stop-after would stop again at once,
// and --resume PATH would go back. If a file or a variable set one of these, it would apply to the next start too; then
// a flag takes it back. `lasting` says which of them was so set. `resume` is what the next start must name, empty for
// auto.
struct Lasting {
  bool stop_after = false, resume = false;
};
std::string command_to_go_on(const std::vector<std::string>& words, Lasting lasting, const std::string& resume);

// The TRAINYARD_ variables that affect this start, which another shell needs too. They are variables of settings whose
// value came from the environment, without those of one start alone, and variables that other parts read.
std::vector<std::string> variables_in_effect(const std::vector<base::Field>& fields);

// The variables and the launcher's words that precede the command of several ranks: "mpirun -n 4 ", "TRAINYARD_ZERO=3
// mpirun -x TRAINYARD_ZERO -n 4 ", "srun --mpi=pmix --kill-on-bad-exit=1 -n 4 ". mpirun passes on the variables by -x.
// For one process without a launcher it is only the variables.
std::string launcher_words(int ranks, const std::vector<std::string>& variables);

}  // namespace trainyard::tools
