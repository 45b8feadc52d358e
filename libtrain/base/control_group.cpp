// Finds the folders of the process's control groups in /proc/self/cgroup and /proc/self/mountinfo, and reads their
// limits.
#include "libtrain/base/control_group.h"

#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <vector>

namespace trainyard::base {

namespace {

// The content of a file; empty where it cannot be read.
std::istringstream stream_of(const std::string& path) {
  try {
    return std::istringstream(read_file(path));
  } catch (const Error&) {
    return {};
  }
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  auto file = stream_of(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& text, char between) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, between);) words.push_back(word);
  return words;
}

// The first number of a file. 0 where there is none ("max") or none that limits anything (version 1 writes "no limit"
// as a number near 2^63).
std::int64_t limit_in(const std::string& path) {
  std::int64_t n = 0;
  return stream_of(path) >> n && n > 0 && n < std::int64_t{1} << 60 ? n : 0;
}

// A mounted hierarchy of control groups.
struct Mount {
  std::string root, point;  // the group `root` is visible at the folder `point`
  bool version_2 = false;
  std::vector<std::string> controllers;  // of version 1 only
  bool has(const std::string& controller) const {
    return version_2 || std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
  }
};

// Lines of proc(5): "ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS".
std::vector<Mount> mounts(const std::string& root) {
  std::vector<Mount> found;
  for (const auto& line : lines_of(root + "/proc/self/mountinfo")) {
    const auto words = words_of(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || std::distance(dash, words.end()) < 4 || !dash[1].starts_with("cgroup")) continue;
    found.push_back({words[3], words[4], dash[1] == "cgroup2", words_of(dash[3], ',')});
  }
  return found;
}

// The process's group in this hierarchy. Lines of /proc/self/cgroup are "ID:CONTROLLER,CONTROLLER:PATH"; version 2
// names no controllers.
std::string group_in(const Mount& mount, const std::vector<std::string>& groups) {
  for (const auto& line : groups) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto named = words_of(line.substr(first + 1, second - first - 1), ',');
    if (mount.version_2 ? named.empty() : !named.empty() && mount.has(named.front())) return line.substr(second + 1);
  }
  return {};
}

// Folders of the group and of all groups above it, innermost first. A group outside of the mount is not visible; then
// the mount's own folder is the nearest.
std::vector<std::string> levels(const Mount& mount, const std::string& group, const std::string& root) {
  const auto base = mount.root == "/" ? std::string() : mount.root;
  auto below = group.starts_with(base + "/") ? group.substr(base.size()) : std::string();
  while (below.ends_with('/')) below.pop_back();
  std::vector<std::string> folders;
  for (; !below.empty(); below.resize(below.rfind('/'))) folders.push_back(root + mount.point + below);
  folders.push_back(root + mount.point);
  return folders;
}

void bound_memory(ControlGroup& g, std::int64_t bytes) {
  if (bytes > 0) g.memory_bytes = g.memory_bytes == 0 ? bytes : std::min(g.memory_bytes, bytes);
}

// A quota of microseconds in each period, also in microseconds.
void bound_cores(ControlGroup& g, std::int64_t quota, std::int64_t period, const std::string& folder) {
  if (quota <= 0 || period <= 0) return;
  const auto cores = static_cast<double>(quota) / static_cast<double>(period);
  if (g.cores > 0 && g.cores <= cores) return;
  g.cores = cores;
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0)
    g.cores_group = static_cast<std::uint64_t>(status.st_ino) ^ static_cast<std::uint64_t>(status.st_dev) << 40;
}

// The memory limit that version 1 reports as the smallest of all levels. It includes levels above the mount, which have
// no visible folder.
std::int64_t hierarchical_limit(const std::string& folder) {
  auto file = stream_of(folder + "/memory.stat");
  std::int64_t n = 0;
  for (std::string name; file >> name >> n;)
    if (name == "hierarchical_memory_limit") return n < std::int64_t{1} << 60 ? n : 0;
  return 0;
}

}  // namespace

ControlGroup own_control_group(const std::string& root) {
  ControlGroup found;
  const auto groups = lines_of(root + "/proc/self/cgroup");
  for (const auto& mount : mounts(root))
    for (const auto& folder : levels(mount, group_in(mount, groups), root)) {
      if (mount.version_2) {
        bound_memory(found, limit_in(folder + "/memory.max"));
        std::int64_t quota = 0, period = 0;
        if (stream_of(folder + "/cpu.max") >> quota >> period) bound_cores(found, quota, period, folder);
        continue;
      }
      if (mount.has("memory")) {
        bound_memory(found, limit_in(folder + "/memory.limit_in_bytes"));
        bound_memory(found, hierarchical_limit(folder));
      }
      if (mount.has("cpu"))
        bound_cores(found, limit_in(folder + "/cpu.cfs_quota_us"), limit_in(folder + "/cpu.cfs_period_us"), folder);
    }
  return found;
}

}  // namespace trainyard::base
