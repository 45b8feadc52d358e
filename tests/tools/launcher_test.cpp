// The nodes that Slurm's variables describe.
#include "tools/common/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace trainyard::tools {
namespace {

std::vector<int> tasks_of(const std::string& list, int nodes) {
  std::vector<int> tasks;
  for (int node = 0; node < nodes; ++node) tasks.push_back(tasks_of_node(list, node));
  return tasks;
}

TEST(Launcher, NodesHaveTheirOwnNumberOfTasks) {
  EXPECT_EQ(tasks_of("4", 2), (std::vector{4, 0}));
  EXPECT_EQ(tasks_of("2,6", 3), (std::vector{2, 6, 0}));
  EXPECT_EQ(tasks_of("2(x3),1", 5), (std::vector{2, 2, 2, 1, 0}));
  EXPECT_EQ(tasks_of("8(x2)", 2), (std::vector{8, 8}));
  for (const auto* list : {"", "many", "2x", "2(x3", "-1", "0", "2(x0)", "2(x3)4"})
    EXPECT_EQ(tasks_of(list, 1), std::vector{0}) << list;
}

TEST(Launcher, ANodeIsAskedForItsOwn) {
  for (const auto* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"}) unsetenv(name);
  EXPECT_EQ(ranks_on_node(8), 8);
  setenv("SLURM_STEP_TASKS_PER_NODE", "2,6", 1);
  EXPECT_EQ(ranks_on_node(8), 2);
  setenv("SLURM_NODEID", "1", 1);
  EXPECT_EQ(ranks_on_node(8), 6);
  EXPECT_EQ(ranks_on_node(4), 4);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
  EXPECT_EQ(ranks_on_node(8), 3);
}

}  // namespace
}  // namespace trainyard::tools
