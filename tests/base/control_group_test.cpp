// Tests limits of control groups, read from files as Linux shows them: both versions, containers, and unreadable files.
#include "libtrain/base/control_group.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace trainyard::base {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;
const std::string none = "9223372036854771712\n";  // what version 1 shows without a limit

struct Machine {
  testing::Scratch root;
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root.path + path).parent_path());
    testing::spit(root.path + path, text);
  }
  ControlGroup group() const { return own_control_group(root.path); }
};

const std::string version_2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(control_group, a_machine_without_groups_has_no_limits) {
  const Machine m;
  const auto g = m.group();
  EXPECT_EQ(g.memory_bytes, 0);
  EXPECT_EQ(g.cores, 0);
  EXPECT_EQ(g.cores_group, 0u);
}

TEST(control_group, each_level_of_version_2_bounds_those_below) {
  const Machine m;
  m.file("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + version_2);
  m.file("/proc/self/cgroup", "0::/slurm/job_7/step_0/task_1\n");
  m.file("/sys/fs/cgroup/slurm/job_7/step_0/task_1/memory.max", "max\n");
  m.file("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "419430400\n");
  m.file("/sys/fs/cgroup/slurm/job_7/memory.max", "838860800\n");
  m.file("/sys/fs/cgroup/slurm/job_7/step_0/task_1/cpu.max", "400000 100000\n");
  m.file("/sys/fs/cgroup/slurm/job_7/cpu.max", "150000 100000\n");
  m.file("/sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
  const auto g = m.group();
  EXPECT_EQ(g.memory_bytes, 400 * mebibyte);
  EXPECT_EQ(g.cores, 1.5);
  EXPECT_NE(g.cores_group, 0u);
  m.file("/proc/self/cgroup", "0::/slurm/job_7/step_0/task_2\n");  // a task of the same job has the same quota
  EXPECT_EQ(m.group().cores_group, g.cores_group);
  m.file("/sys/fs/cgroup/slurm/job_7/step_0/task_2/cpu.max", "50000 100000\n");
  EXPECT_EQ(m.group().cores, 0.5);
  EXPECT_NE(m.group().cores_group, g.cores_group);
}

TEST(control_group, version_1_has_a_hierarchy_for_each_controller) {
  const Machine m;
  m.file("/proc/self/mountinfo",
         "30 29 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
         "33 29 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
         "36 29 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
         "37 29 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  m.file("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/step\n1:cpu,cpuacct:/job\n0::/\n");
  m.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", none);
  m.file("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "419430400\n");
  m.file("/sys/fs/cgroup/memory/job/step/memory.limit_in_bytes", none);
  m.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  m.file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  m.file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(m.group().memory_bytes, 400 * mebibyte);
  EXPECT_EQ(m.group().cores, 2.5);
  m.file("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", none);
  EXPECT_EQ(m.group().memory_bytes, 0);
}

// In a container, the group's own folder is mounted. Limits of the groups above it appear only in memory.stat.
TEST(control_group, a_container_sees_its_own_folder) {
  const Machine m;
  m.file("/proc/self/mountinfo",
         "36 29 0:33 /docker/4f2a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
         "33 29 0:30 /docker/4f2a /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  m.file("/proc/self/cgroup", "4:memory:/docker/4f2a\n1:cpu:/docker/4f2a\n");
  m.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", none);
  m.file("/sys/fs/cgroup/memory/memory.stat", "cache 0\nrss 4096\nhierarchical_memory_limit 209715200\n");
  m.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  m.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(m.group().memory_bytes, 200 * mebibyte);
  EXPECT_EQ(m.group().cores, 1);
  m.file("/proc/self/cgroup", "4:memory:/kubepods/pod1/c2\n");  // a namespace whose path is not the mount's
  EXPECT_EQ(m.group().memory_bytes, 200 * mebibyte);
}

TEST(control_group, what_cannot_be_read_bounds_nothing) {
  const Machine m;
  m.file("/proc/self/mountinfo", "29 23\n- - - - -\n" + version_2);
  m.file("/proc/self/cgroup", "nonsense\n0:\n");
  m.file("/sys/fs/cgroup/memory.max", "");
  m.file("/sys/fs/cgroup/cpu.max", "100000");
  EXPECT_EQ(m.group().memory_bytes, 0);
  EXPECT_EQ(m.group().cores, 0);
}

}  // namespace
}  // namespace trainyard::base
