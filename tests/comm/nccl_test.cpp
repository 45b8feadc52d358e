// Tests the contract over NCCL, and over MPI staged for a GPU; whole runs with either give the same bits. The
// environment names the libraries: stand-ins on any machine, the real ones on a machine with GPUs. 77 without a
// library.
#include "libtrain/comm/nccl.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/staged.h"
#include "libtrain/tensor/gpu.h"
#include "tests/comm/contract.h"
#include "tests/comm/on_device.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

using namespace trainyard;

comm::MpiRuntime* runtime = nullptr;
int device = 0;

TEST(nccl, contract) {
  auto control = runtime->communicator("control");
  comm::OnDevice on_device(comm::make_nccl("data", device, *control), device);
  auto exec = tensor::Exec::caller(nullptr, 1);
  comm::contract::everything(on_device, *exec);
  EXPECT_FALSE(on_device.ledger().in_call());
}

TEST(nccl, says_its_version) { EXPECT_EQ(comm::nccl_version().substr(0, 2), "2."); }

// NCCL may learn of an error while the device works. It ends the job with exit code 6, and a later call does not wait.
TEST(nccl, a_peer_that_ended_is_an_error_of_the_next_call) {
  if (std::string(tensor::gpu_module().runtime->name) != "emulated")
    GTEST_SKIP() << "the stand-in pretends that a peer ended";
  auto control = runtime->communicator("control");
  auto nccl = comm::make_nccl("data", device, *control);
  auto exec = tensor::Exec::gpu(device, nullptr);
  nccl->barrier(*exec);
  setenv("TRAINYARD_STANDIN_NCCL_FAILS", "1", 1);
  for (int call = 0; call < 2; ++call) {
    try {
      nccl->barrier(*exec);
      ADD_FAILURE() << "nothing was said";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::peer_hung);
      EXPECT_TRUE(call == 1 || std::string(e.what()).find("remote process exited") != std::string::npos) << e.what();
    }
  }
  EXPECT_FALSE(nccl->ledger().in_call());
  unsetenv("TRAINYARD_STANDIN_NCCL_FAILS");
}

// Two groups over one connection: each has its own ledger, and an error of one is an error of both.
TEST(nccl, groups_share_a_connection) {
  auto control = runtime->communicator("control");
  auto data = comm::make_nccl("data", device, *control);
  auto results = comm::nccl_group("results", *data);
  auto exec = tensor::Exec::gpu(device, nullptr);
  {
    comm::OnDevice on_device(comm::nccl_group("results", *data), device);
    auto caller = tensor::Exec::caller(nullptr, 1);
    comm::contract::everything(on_device, *caller);
  }
  EXPECT_TRUE(data->ledger().totals().empty());
  results->barrier(*exec);
  EXPECT_EQ(results->ledger().totals().at("barrier").calls, 1u);
  if (std::string(tensor::gpu_module().runtime->name) != "emulated") return;
  setenv("TRAINYARD_STANDIN_NCCL_FAILS", "1", 1);
  EXPECT_THROW(data->barrier(*exec), base::PeerError);
  unsetenv("TRAINYARD_STANDIN_NCCL_FAILS");
  EXPECT_THROW(results->barrier(*exec), base::PeerError) << "the connection is gone for all";
}

// The watchdog asks while another thread is inside a call. The connection has failed, but the watchdog does not abort
// it during that call.
TEST(nccl, a_call_under_way_is_not_aborted_by_who_watches) {
  if (std::string(tensor::gpu_module().runtime->name) != "emulated")
    GTEST_SKIP() << "the stand-in says when it is aborted inside of a call";
  auto control = runtime->communicator("control");
  auto data = comm::make_nccl("data", device, *control);
  auto results = comm::nccl_group("results", *data);
  setenv("TRAINYARD_STANDIN_NCCL_CALL_MS", "400", 1);
  std::thread calls([&] {
    auto exec = tensor::Exec::gpu(device, nullptr);
    data->barrier(*exec);
  });
  while (!data->ledger().in_call()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  setenv("TRAINYARD_STANDIN_NCCL_FAILS", "1", 1);
  EXPECT_FALSE(results->ledger().in_call());
  calls.join();
  unsetenv("TRAINYARD_STANDIN_NCCL_CALL_MS");
  EXPECT_FALSE(results->ledger().in_call()) << "now it is aborted";
  auto exec = tensor::Exec::gpu(device, nullptr);
  EXPECT_THROW(data->barrier(*exec), base::PeerError);
  unsetenv("TRAINYARD_STANDIN_NCCL_FAILS");
}

TEST(staged, contract) {
  comm::OnDevice on_device(comm::staged(runtime->communicator("data")), device);
  auto exec = tensor::Exec::caller(nullptr, 1);
  comm::contract::everything(on_device, *exec);
}

TEST(staged, a_cpu_exec_is_served_as_before) {
  auto staged = comm::staged(runtime->communicator("data"));
  auto exec = tensor::Exec::caller(nullptr, 1);
  comm::contract::everything(*staged, *exec);
}

}  // namespace

int main(int argc, char** argv) {
  if (!tensor::gpu_available() || !comm::nccl_available()) {
    std::puts("skipped: no GPU module with a device, or no NCCL");
    return 77;
  }
  comm::MpiRuntime mpi;
  runtime = &mpi;
  device = mpi.rank() % tensor::gpu_module().runtime->device_count();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
