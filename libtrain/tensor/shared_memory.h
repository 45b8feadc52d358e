// Memory of this process that other processes of its machine may look at, and theirs that this one looks at. It has no
// name in any file system: it goes with the last process that maps it, however that ends.
#pragma once

#include <cstdint>

namespace trainyard::tensor {

// Where bytes lie, as another process of the machine finds them.
struct SharedPlace {
  std::int64_t region = 0;  // a number of its process's own, never given twice; 0: nowhere that others can see
  std::int64_t region_bytes = 0, offset = 0;
  std::int64_t released = 0;  // regions of its process that are gone by now
  std::int32_t process = 0, file = -1;
  std::uint64_t device = 0, inode = 0;  // of the file: elsewhere another process may have this number
};

// While memory is shared, arenas that collectives read are made where others can see them. It is not until somebody who
// knows the other processes says so.
void begin_sharing();
void end_sharing();  // regions to come are private; those there are stay

// Zeroed memory, touched first by whoever writes to it. Null where memory is not shared, or the system refuses (a limit
// of files or of their size), or would only refuse when it is touched (it promises no more than it has): private memory
// does the same work. From any thread, as all of these.
void* reserve_shared(std::int64_t bytes);
// False: this is no such memory. gone: its pages are the system's again, also where others still map it.
enum class Pages { gone, stay };
bool release_shared(void* memory, Pages pages);
SharedPlace shared_place(const void* data, std::int64_t bytes);

// What lies at a place of another process, to be read: mapped with the first call and until its process has released a
// region. PeerError where that process is gone or its files are kept from this one, EnvironmentError where the system
// has no room.
const char* memory_of_peer(const SharedPlace& place);
// The whole region of a place, of this process too, to be read and written by all: a mapping of its own for each call,
// which outlives the region until unmap_writable(). Null where the system refuses.
void* map_writable(const SharedPlace& place);
void unmap_writable(void* memory, const SharedPlace& place);
// How much of the memory of others counts in the resident size of this process.
std::int64_t resident_bytes_of_peers();

}  // namespace trainyard::tensor
