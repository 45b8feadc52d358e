// Reads Open MPI's and Slurm's variables.
#include "tools/common/launcher.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <cstdlib>

namespace trainyard::tools {

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  const int n = text == nullptr ? 0 : std::atoi(text);
  return n > 0 ? n : otherwise;
}

bool any_of_them(std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

bool launched() {
  const bool manager = any_of_them({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"});
  if (!manager && number("SLURM_STEP_NUM_TASKS", 1) > 1)
    throw base::EnvironmentError(fmt::format("Slurm started {} tasks without a process manager that MPI knows",
                                             std::getenv("SLURM_STEP_NUM_TASKS")),
                                 "launch with srun --mpi=pmix");
  return manager || std::getenv("SLURM_STEP_NUM_TASKS") != nullptr;
}

int tasks() { return number("OMPI_COMM_WORLD_SIZE", number("SLURM_STEP_NUM_TASKS", 1)); }

int rank() { return number("OMPI_COMM_WORLD_RANK", number("SLURM_PROCID", 0)); }

int local_rank() { return number("OMPI_COMM_WORLD_LOCAL_RANK", number("SLURM_LOCALID", 0)); }

int ranks_on_node(int world) {
  return std::clamp(number("OMPI_COMM_WORLD_LOCAL_SIZE", number("SLURM_STEP_TASKS_PER_NODE", world)), 1, world);
}

}  // namespace trainyard::tools
