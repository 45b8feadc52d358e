// What the control groups of a process allow it (cgroups(7), versions 1 and 2): containers and job managers set them.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::base {

struct ControlGroup {
  std::int64_t memory_bytes = 0;  // 0: no limit is known
  double cores = 0;               // processor seconds a second (a quota); 0: no limit is known
  std::uint64_t cores_group = 0;  // tells the group that has the quota: its processes share it. 0 without one
};

// Of this process. Each level bounds those below, so the least counts; a level that cannot be read bounds nothing.
// `root`: the folder that /proc/self and the mount points are looked for in, for tests.
ControlGroup own_control_group(const std::string& root = "");

}  // namespace trainyard::base
