// The command that goes on with a run that was stopped.
#pragma once

#include "libtrain/base/fields.h"

#include <string>
#include <vector>

namespace trainyard::tools {

// `words` as a person would type them to a shell, without the flags that belong to one start alone: --stop-after would
// stop again at once, --resume PATH would go back. What of these was set by a file or a variable stays for the next
// start too: it is taken back by a flag. `resume` is what the next start must name, empty for auto.
struct Lasting {
  bool stop_after = false, resume = false;
};
std::string command_to_go_on(const std::vector<std::string>& words, Lasting lasting, const std::string& resume);

// The TRAINYARD_ variables that decide something for this start, so that another shell needs them as well: of settings
// whose value came from the environment, but not those that belong to one start alone, and of what other parts read.
std::vector<std::string> variables_in_effect(const std::vector<base::Field>& fields);

// How several ranks were launched, in front of their command, and in front of that the variables, which mpirun is told
// to hand on: "mpirun -n 4 ", "TRAINYARD_ZERO=3 mpirun -x TRAINYARD_ZERO -n 4 ", "srun --mpi=pmix --kill-on-bad-exit=1
// -n 4 "; only the variables for one process that was not launched.
std::string launcher_words(int ranks, const std::vector<std::string>& variables);

}  // namespace trainyard::tools
