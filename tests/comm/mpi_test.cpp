// Tests the contract over MPI, with whole messages and with messages divided into small parts.
#include "libtrain/comm/mpi.h"
#include "tests/comm/contract.h"

#include <algorithm>

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

// Parts of the world keep the contract at the same time. A rank that is in no part does nothing.
TEST(mpi, contract_in_parts_of_the_world) {
  auto exec = trainyard::tensor::Exec::caller(nullptr, 1);
  std::vector<int> part;
  for (int r = runtime->rank() % 2; r < runtime->size(); r += 2) part.push_back(r);
  const auto comm = runtime->split("parity", part);
  EXPECT_EQ(comm->size(), static_cast<int>(part.size()));
  EXPECT_EQ(comm->rank(), runtime->rank() / 2);
  EXPECT_EQ(comm->group(), "parity");
  trainyard::comm::contract::everything(*comm, *exec);
  if (runtime->rank() < 2) {  // the other ranks do not call
    std::vector<int> first;
    for (int r = 0; r < std::min(2, runtime->size()); ++r) first.push_back(r);
    trainyard::comm::contract::everything(*runtime->split("first", first), *exec);
  }
  EXPECT_EQ(trainyard::comm::MpiRuntime::library().find(','), std::string::npos);
  EXPECT_NE(trainyard::comm::MpiRuntime::library().find(' '), std::string::npos);
}

}  // namespace

int main(int argc, char** argv) {
  trainyard::comm::MpiRuntime mpi;
  runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
