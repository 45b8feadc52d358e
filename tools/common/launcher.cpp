// Reads Open MPI's and Slurm's variables.
#include "tools/common/launcher.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

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

bool by_srun() { return std::getenv("SLURM_STEP_ID") != nullptr; }

bool kills_soon() { return number("OMPI_COMM_WORLD_SIZE", 1) > 1 && !by_srun(); }

int local_rank() { return number("OMPI_COMM_WORLD_LOCAL_RANK", number("SLURM_LOCALID", 0)); }

int tasks_of_node(const std::string& list, int node) {
  std::istringstream in(list);
  int before = 0;  // nodes in earlier parts of the list
  for (std::string part; std::getline(in, part, ',');) {
    int tasks = 0, nodes = 1, end = 0;
    const int values = std::sscanf(part.c_str(), "%d%n(x%d)%n", &tasks, &end, &nodes, &end);
    if (values < 1 || tasks < 1 || nodes < 1 || static_cast<std::size_t>(end) != part.size()) return 0;
    before += nodes;
    if (node < before) return tasks;
  }
  return 0;
}

int ranks_on_node(int world) {
  const char* list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const int by_slurm = list == nullptr ? 0 : tasks_of_node(list, number("SLURM_NODEID", 0));
  return std::clamp(number("OMPI_COMM_WORLD_LOCAL_SIZE", by_slurm > 0 ? by_slurm : world), 1, world);
}

}  // namespace trainyard::tools
