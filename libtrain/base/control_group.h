// The limits that control groups (cgroups(7), versions 1 and 2) set for a process. Containers and job managers set
// them.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::base {

struct ControlGroup {
  std::int64_t memory_bytes = 0;  // 0: no limit is known
  double cores = 0;               // quota: processor seconds in a second; 0: no limit is known
  std::uint64_t cores_group = 0;  // identifies the group whose processes share the quota; 0 without a quota
};

// The limits of this process. Each level of a hierarchy bounds the levels below, so the smallest limit counts. A level
// that cannot be read sets no limit. `root` is for tests: the folder in which /proc/self and the mount points are
// looked up.
ControlGroup own_control_group(const std::string& root = "");

}  // namespace trainyard::base
