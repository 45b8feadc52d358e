// Tests with an MPI library that lets one thread at a time call it. All calls of a run without pipeline stages work;
// communicators for pipeline stages are refused.
#include "libtrain/comm/mpi.h"
#include "tests/comm/contract.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace trainyard::comm {
namespace {

MpiRuntime* runtime = nullptr;

TEST(serialized_mpi, has_collectives_and_refuses_threads_beside_one_another) {
  const auto comm = runtime->communicator("data");
  const auto exec = tensor::Exec::worker("communication", nullptr);
  contract::everything(*comm, *exec);
  try {
    runtime->concurrent_factory();
    ADD_FAILURE() << "nothing was said";
  } catch (const base::EnvironmentError& e) {
    EXPECT_EQ(e.code(), base::ExitCode::environment);
    EXPECT_NE(std::string(e.what()).find("lets one thread at a time call it"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("MPI_THREAD_MULTIPLE"), std::string::npos) << e.hint();
  }
}

}  // namespace
}  // namespace trainyard::comm

// Replaces the library's function.
extern "C" int MPI_Init_thread(int* argc, char*** argv, int, int* provided) {
  return PMPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, provided);
}

int main(int argc, char** argv) {
  trainyard::comm::MpiRuntime mpi;
  trainyard::comm::runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
