// The launcher's variables: is this process one of several ranks, which one on its node, and how many share it.
#pragma once

namespace trainyard::tools {

// Started by mpirun or srun. EnvironmentError (exit 4) when srun started several tasks, but gave them no way to find
// one another: MPI would fail inside MPI_Init, or every task would work alone.
bool launched();
int tasks();                   // as many processes as the launcher started; 1 without one
int rank();                    // among them
int local_rank();              // 0 without a launcher
int ranks_on_node(int world);  // between 1 and `world`

}  // namespace trainyard::tools
