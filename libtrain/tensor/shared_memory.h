// Memory that processes of one machine can read from one another. It has no name in any file system. So it is freed
// when the last process that maps it ends, in whatever way.
#pragma once

#include <cstdint>

namespace trainyard::tensor {

// Where bytes are, in a form that another process of the machine can use.
struct SharedPlace {
  std::int64_t region = 0;  // a number that this process uses once; 0: not in shared memory
  std::int64_t region_bytes = 0, offset = 0;
  std::int64_t released = 0;  // how many regions its process has released so far
  std::int32_t process = 0, file = -1;
  std::uint64_t device = 0, inode = 0;  // of the file: a check, because another process may get the same process number
};

// From this call on, arenas that collectives read are created in shared memory. Only code that knows the machine's
// other processes calls it.
void begin_sharing();
void end_sharing();  // new regions are private; existing ones stay shared

// Reserves zeroed memory whose pages are supplied on first touch. Returns null where sharing is off, or where the
// system refuses (a limit of files or of their size). Also where the system would refuse only at first touch, because
// it promises no more memory than it has. Private memory works as well then. Any thread may call this and the functions
// below.
void* reserve_shared(std::int64_t bytes);
// Returns false if the memory is no shared region. Pages::gone returns its pages to the system, even where other
// processes still map them.
enum class Pages { gone, stay };
bool release_shared(void* memory, Pages pages);
SharedPlace shared_place(const void* data, std::int64_t bytes);

// Readable address of bytes in another process. The first call maps their region, and the mapping stays until that
// process has released a region. PeerError where the process is gone or its files are closed to this one.
// EnvironmentError where the system has no room.
const char* memory_of_peer(const SharedPlace& place);
// Maps the whole region of a place, which may belong to this process, readable and writable. Each call makes its own
// mapping, which lasts until unmap_writable(), even if the region is released before. Null where the system refuses.
void* map_writable(const SharedPlace& place);
void unmap_writable(void* memory, const SharedPlace& place);
// Bytes of other processes' memory that count in the resident size of this process.
std::int64_t resident_bytes_of_peers();

}  // namespace trainyard::tensor
