// In-memory files that only /proc names: another process of the same user opens /proc/PID/fd/FILE.
#include "libtrain/tensor/shared_memory.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trainyard::tensor {

namespace {

struct Region {
  std::int64_t number, bytes;
  int file;
  std::uint64_t device, inode;
};
struct Mapped {
  void* memory;
  std::int64_t bytes;
};
struct Peer {
  std::int64_t released = 0;
  std::map<std::int64_t, Mapped> regions;
};

struct Registry {
  std::mutex mutex;
  bool sharing = false;
  std::int64_t last = 0, released = 0;
  std::map<const char*, Region> own;   // by their first byte
  std::map<std::int32_t, Peer> peers;  // by process number
};

Registry& registry() {
  static auto* all = new Registry;  // never destroyed: arenas may outlive static objects
  return *all;
}

// The limit of file sizes may be below the memory limit. Growing a file beyond it raises a signal.
bool files_may_have(std::int64_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || static_cast<std::uint64_t>(bytes) <= limit.rlim_cur);
}

// Whether the system promises no more memory than it has. Such a system counts private memory when it is reserved, but
// files when they are touched, and raises a signal where there is too little.
bool memory_is_counted_first() {
  static const bool counted = [] {
    int policy = 0;
    std::ifstream("/proc/sys/vm/overcommit_memory") >> policy;
    return policy == 2;
  }();
  return counted;
}

// Maps the region of a place. The device and inode are checked, because another process may have this number by now,
// and its file may be another one.
void* map_place(const SharedPlace& place, int flags, int protection) {
  const auto path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
  const int file = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return MAP_FAILED;
  struct stat found {};
  void* p = MAP_FAILED;
  if (fstat(file, &found) == 0) {
    errno = ENOENT;
    if (found.st_dev == place.device && found.st_ino == place.inode)
      p = mmap(nullptr, base::size(place.region_bytes), protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  const int problem = errno;
  close(file);
  errno = problem;
  return p;
}

}  // namespace

void begin_sharing() {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  all.sharing = true;
}

void end_sharing() {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  all.sharing = false;
}

void* reserve_shared(std::int64_t bytes) {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  if (!all.sharing || bytes <= 0 || !files_may_have(bytes) || memory_is_counted_first()) return nullptr;
  const int file = memfd_create("trainyard", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* p = MAP_FAILED;
  struct stat made {};
  if (ftruncate(file, bytes) == 0 && fstat(file, &made) == 0)
    p = mmap(nullptr, base::size(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (p == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  all.own[static_cast<const char*>(p)] = {++all.last, bytes, file, made.st_dev, made.st_ino};
  return p;
}

bool release_shared(void* memory, Pages pages) {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  const auto found = all.own.find(static_cast<const char*>(memory));
  if (found == all.own.end()) return false;
  const auto bytes = base::size(found->second.bytes);
  if (pages == Pages::gone) madvise(memory, bytes, MADV_REMOVE);
  munmap(memory, bytes);
  close(found->second.file);
  all.own.erase(found);
  ++all.released;
  return true;
}

SharedPlace shared_place(const void* data, std::int64_t bytes) {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  const auto* at = static_cast<const char*>(data);
  auto next = all.own.upper_bound(at);
  if (next == all.own.begin()) return {};
  const auto& [begin, region] = *std::prev(next);
  if (at - begin + bytes > region.bytes) return {};
  return {region.number, region.bytes,  at - begin,  all.released, static_cast<std::int32_t>(getpid()),
          region.file,   region.device, region.inode};
}

const char* memory_of_peer(const SharedPlace& place) {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  auto& peer = all.peers[place.process];
  if (peer.released != place.released) {
    for (const auto& [number, old] : peer.regions) munmap(old.memory, base::size(old.bytes));
    peer.regions.clear();
    peer.released = place.released;
  }
  auto found = peer.regions.find(place.region);
  if (found == peer.regions.end()) {
    void* p = map_place(place, O_RDONLY, PROT_READ);
    // The ranks have mapped one another's memory before, so a refusal now means that the other rank has ended. While a
    // process ends, until its parent has noticed, the system hides its files from all but root.
    if (p == MAP_FAILED && (errno == ENOENT || errno == ESRCH || errno == EACCES || errno == EPERM))
      throw base::PeerError(
          fmt::format("process {} of this machine has ended, or no longer shares its memory", place.process),
          "its last messages tell why");
    if (p == MAP_FAILED)
      throw base::EnvironmentError(fmt::format("cannot look at {} bytes of process {} of this machine: {}",
                                               place.region_bytes, place.process, std::strerror(errno)),
                                   "set TRAINYARD_SHARED_MEMORY=off");
    found = peer.regions.insert({place.region, {p, place.region_bytes}}).first;
  }
  return static_cast<const char*>(found->second.memory) + place.offset;
}

void* map_writable(const SharedPlace& place) {
  void* p = map_place(place, O_RDWR, PROT_READ | PROT_WRITE);
  return p == MAP_FAILED ? nullptr : p;
}

void unmap_writable(void* memory, const SharedPlace& place) { munmap(memory, base::size(place.region_bytes)); }

std::int64_t resident_bytes_of_peers() {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  std::map<std::uint64_t, bool> begins;
  for (const auto& [process, peer] : all.peers)
    for (const auto& [number, mapped] : peer.regions) begins[reinterpret_cast<std::uint64_t>(mapped.memory)] = true;
  if (begins.empty()) return 0;
  std::int64_t bytes = 0;
  bool of_peer = false;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t from = 0, to = 0;
    std::int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) of_peer = begins.contains(from);
    else if (of_peer && std::sscanf(line.c_str(), "Rss: %" SCNd64 " kB", &kib) == 1) bytes += kib * 1024;
  }
  return bytes;
}

}  // namespace trainyard::tensor
