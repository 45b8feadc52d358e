// The contract over MPI, with whole messages and with messages cut into small parts.
#include "libtrain/comm/mpi.h"
#include "tests/comm/contract.h"

namespace {

trainyard::comm::MpiRuntime* runtime = nullptr;

TEST(mpi, contract_on_the_caller) {
  auto comm = runtime->communicator("data");
  auto exec = trainyard::tensor::Exec::caller(nullptr, 1);
  trainyard::comm::contract::everything(*comm, *exec);
}

TEST(mpi, contract_on_a_worker_with_small_messages) {
  trainyard::comm::MpiRuntime::limit_message_bytes(1000);
  auto comm = runtime->communicator("data");
  {
    auto exec = trainyard::tensor::Exec::worker("exchange", nullptr);
    trainyard::comm::contract::everything(*comm, *exec);
  }
  trainyard::comm::MpiRuntime::limit_message_bytes(std::int64_t{1} << 30);
}

}  // namespace

int main(int argc, char** argv) {
  trainyard::comm::MpiRuntime mpi;
  runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
