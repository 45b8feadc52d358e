// A job whose rank 1 never arrives at a barrier, or never sends to the next pipeline stage. hung_rank.sh expects that
// the watchdog ends it. With a wrong launcher the job must be refused.
#include "libtrain/base/error.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/neighbours.h"
#include "libtrain/comm/watchdog.h"

#include <chrono>
#include <cstdio>
#include <thread>

using namespace trainyard;

namespace {

void hang(const std::string& folder) {
  comm::MpiRuntime mpi;
  auto comm = mpi.communicator("data");
  auto exec = tensor::Exec::worker("communication", nullptr);
  comm::Watchdog dog({mpi.rank(), mpi.size(), 0.5, 0.1, comm::end_job_on_hang(folder, mpi.rank())},
                     {{{"data"}, &comm->ledger()}});
  const auto addresses = comm::texts_of_all(*comm, *exec, dog.address());
  dog.set_step(5);
  dog.start(addresses);
  if (mpi.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
  comm->barrier(*exec);
  exec->synchronize();
}

// The same for pipeline stages: the last stage waits for activations that stage 1 does not send.
void hang_in_a_pipeline(const std::string& folder) {
  comm::MpiRuntime mpi;
  auto control = mpi.communicator("control");
  auto exec = tensor::Exec::worker("communication", nullptr);
  comm::Neighbours neighbours(mpi.concurrent_factory(), plan::Topology({{plan::Axis::pipe, mpi.size()}}), mpi.rank());
  comm::Watchdog dog({mpi.rank(), mpi.size(), 0.5, 0.1, comm::end_job_on_hang(folder, mpi.rank())},
                     neighbours.watched());
  dog.start(comm::texts_of_all(*control, *exec, dog.address()));
  float value = 0;
  const auto view = base::View::of(&value, {1});
  if (neighbours.has_previous()) neighbours.receive_activations(view, {}).wait();
  if (mpi.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
  if (neighbours.has_next()) {
    neighbours.send_activations(view, {});
    neighbours.receive_gradients(view, {}).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 2) hang_in_a_pipeline(argv[1]);
    else hang(argc > 1 ? argv[1] : ".");
    return 0;
  } catch (const base::Error& e) {
    std::fprintf(stderr, "%s\n%s\n", e.what(), e.hint().c_str());
    std::fflush(stderr);
    std::_Exit(static_cast<int>(e.code()));
  }
}
