// Tests the start and end of MPI in a program that initializes and finalizes MPI itself, and the refusals of a second
// runtime and of an MPI that is over.
#include "libtrain/comm/mpi.h"
#include "tests/comm/contract.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace {
int level = -1;  // what MPI_Query_thread reports; -1: the truth
}

// Replaces the library's function.
extern "C" int MPI_Query_thread(int* provided) {
  if (level < 0) return PMPI_Query_thread(provided);
  *provided = level;
  return MPI_SUCCESS;
}

namespace trainyard::comm {
namespace {

template <class Error> std::string refusal() {
  try {
    const MpiRuntime runtime;
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

bool finalized() {
  int over = 0;
  MPI_Finalized(&over);
  return over != 0;
}

// The first test finds MPI initialized by main(), and the last one finalizes it.
TEST(mpi_runtime, uses_the_mpi_of_the_program_and_leaves_it_running) {
  for (int time = 0; time < 2; ++time) {
    MpiRuntime runtime;
    EXPECT_EQ(runtime.size(), 2);
    const auto exec = tensor::Exec::worker("communication", nullptr);
    contract::everything(*runtime.communicator("data"), *exec);
    contract::everything(*runtime.concurrent_factory()("stages", {0, 1}), *exec);
    EXPECT_EQ(refusal<base::UsageError>(), "this process has a comm::MpiRuntime already");
  }
  EXPECT_FALSE(finalized());
}

TEST(mpi_runtime, refuses_roots_outside_the_group) {
  MpiRuntime runtime;
  const auto exec = tensor::Exec::caller(nullptr, 1);
  std::vector<float> values(4);
  EXPECT_THROW(runtime.communicator("data")->broadcast(*exec, contract::view(values), 5), std::logic_error);
}

TEST(mpi_runtime, refuses_an_mpi_for_one_thread) {
  level = MPI_THREAD_FUNNELED;
  EXPECT_EQ(refusal<base::EnvironmentError>(),
            "this program has initialized MPI without support for calls from a communication thread");
  EXPECT_FALSE(finalized());
  level = MPI_THREAD_SERIALIZED;
  {
    MpiRuntime runtime;
    EXPECT_THROW(runtime.concurrent_factory(), base::EnvironmentError);
  }
  level = -1;
}

TEST(mpi_runtime, refuses_an_mpi_that_is_over) {
  MPI_Finalize();
  EXPECT_EQ(refusal<base::UsageError>(), "MPI has been finalized in this process, and cannot start again");
}

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
