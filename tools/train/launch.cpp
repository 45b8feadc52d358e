// Reads the launcher's variables.
#include "tools/train/launch.h"

#include "libtrain/base/error.h"
#include "libtrain/io/atomic_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

namespace trainyard::tools {

namespace {

bool launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "SLURM_STEP_NUM_TASKS"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  const int n = text == nullptr ? 0 : std::atoi(text);
  return n > 0 ? n : otherwise;
}

// srun started several tasks, but gave them no way to find one another: MPI would fail inside MPI_Init, or every task would train alone.
void refuse_lonely_tasks() {
  if (number("SLURM_STEP_NUM_TASKS", 1) <= 1) return;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return;
  throw base::EnvironmentError(fmt::format("Slurm started {} tasks without a process manager that MPI knows", std::getenv("SLURM_STEP_NUM_TASKS")),
                               "launch with srun --mpi=pmix");
}

}  // namespace

Launch::Launch() {
  refuse_lonely_tasks();
  if (!launched()) {
    world_ = engine::solo_world();
    return;
  }
  mpi_ = std::make_unique<comm::MpiRuntime>();
  world_ = engine::make_world("mpi", mpi_->rank(), mpi_->size(), [this](std::string group) { return mpi_->communicator(group); });
  world_.local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK", number("SLURM_LOCALID", 0));
}

int Launch::ranks_on_node() const {
  const int all = world_.size;
  return std::clamp(number("OMPI_COMM_WORLD_LOCAL_SIZE", number("SLURM_STEP_TASKS_PER_NODE", all)), 1, all);
}

void Launch::fail(const std::string& output, int exit_code, const std::string& reason) {
  if (world_.size == 1) return;
  try {
    io::make_folders(output + "/exit");
    const nlohmann::json j{{"rank", world_.rank}, {"exit_code", exit_code}, {"reason", reason}};
    io::write_file(fmt::format("{}/exit/rank-{:05}.json", output, world_.rank), j.dump(1) + "\n");
  } catch (const std::exception&) {
    // The reason is on stderr already.
  }
  mpi_->abort(exit_code);
}

}  // namespace trainyard::tools
