// The time of a call on the slowest rank.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace trainyard::bench {

// Seconds between a barrier and the end of the call on the slowest rank; every rank gets the same number.
template <class Call> double seconds_of(const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  call();
  double own = MPI_Wtime() - start, slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

}  // namespace trainyard::bench
