// The launcher's variables: whether this process is one of several ranks, which rank of its node it is, and how many
// share the node.
#pragma once

#include <string>

namespace trainyard::tools {

// Returns whether mpirun or srun started this process. EnvironmentError (exit 4) when srun started several tasks
// without a way to find one another. Then MPI would fail inside MPI_Init, or every task would work alone.
bool launched();
int tasks();                   // number of processes that the launcher started; 1 without one
int rank();                    // this process among them
bool by_srun();                // false: mpirun, if there are several ranks
bool kills_soon();             // several ranks under mpirun, which kills them a second or two after a TERM or INT
int local_rank();              // 0 without a launcher
int ranks_on_node(int world);  // on the node of this process; between 1 and `world`
// Tasks of node `node` by Slurm's list, such as "2(x3),1"; 0 if the list does not say.
int tasks_of_node(const std::string& list, int node);

}  // namespace trainyard::tools
