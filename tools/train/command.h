// The command that goes on with a run that was stopped.
#pragma once

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

// How several ranks were launched, in front of their command: "mpirun -n 4 ", "srun --mpi=pmix --kill-on-bad-exit=1 -n
// 4 "; nothing for one process that was not.
std::string launcher_words(int ranks);

}  // namespace trainyard::tools
