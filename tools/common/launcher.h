// The launcher's variables: is this process one of several ranks, which one on its node, and how many share it.
#pragma once

#include <string>

namespace trainyard::tools {

// Started by mpirun or srun. EnvironmentError (exit 4) when srun started several tasks, but gave them no way to find
// one another: MPI would fail inside MPI_Init, or every task would work alone.
bool launched();
int tasks();                   // as many processes as the launcher started; 1 without one
int rank();                    // among them
bool by_srun();                // else mpirun, where there are several
bool kills_soon();             // several ranks of mpirun, which kills them a second or two after a TERM or INT
int local_rank();              // 0 without a launcher
int ranks_on_node(int world);  // of this process; between 1 and `world`
// Of Slurm's list, "2(x3),1": tasks of the node with that index; 0 where the list does not say.
int tasks_of_node(const std::string& list, int node);

}  // namespace trainyard::tools
