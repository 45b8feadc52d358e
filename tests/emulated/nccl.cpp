// A stand-in for NCCL over MPI on host memory: the same C interface, for the emulated GPU. Collectives, and groups that
// both send and receive, are done when they return. Sends alone copy their data and return. Receives alone are done
// when somebody waits for them in the order of their stream, so a receive may be called before its message is sent.
#define OMPI_SKIP_MPICXX 1
#include "libtrain/base/dtype.h"
#include "tests/emulated/stream.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace {

enum Result : int { success = 0, invalid_argument = 4, invalid_usage = 5, remote_error = 6 };

struct Comm {
  MPI_Comm mpi = MPI_COMM_NULL;
  std::atomic<int> inside = 0;  // calls under way
};

// A call under way. With TRAINYARD_STANDIN_NCCL_CALL_MS it takes at least that long.
class Inside {
 public:
  explicit Inside(Comm* comm) : comm_(comm) {
    ++comm_->inside;
    if (const char* ms = std::getenv("TRAINYARD_STANDIN_NCCL_CALL_MS"))
      std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(ms)));
  }
  ~Inside() { --comm_->inside; }

 private:
  Comm* comm_;
};

int width_of(int type) {
  return type == 0 || type == 1 ? 1 : type == 2 || type == 7 ? 4 : type == 6 || type == 9 ? 2 : 8;
}

template <int op, class T> T combine(T a, T b) { return op == 0 ? a + b : op == 2 ? (a > b ? a : b) : (a < b ? a : b); }
// Narrow values are widened, combined in f32, and rounded to nearest even.
template <class T, int op> void combine_narrow(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n; ++i) {
    auto& to = static_cast<T*>(inout)[i];
    to = T(combine<op>(static_cast<float>(static_cast<const T*>(in)[i]), static_cast<float>(to)));
  }
}

MPI_Datatype mpi_type(int type) {
  switch (type) {
    case 0: return MPI_INT8_T;
    case 1: return MPI_UINT8_T;
    case 2: return MPI_INT32_T;
    case 4: return MPI_INT64_T;
    case 5: return MPI_UINT64_T;
    case 7: return MPI_FLOAT;
    case 8: return MPI_DOUBLE;
    default: return MPI_UINT16_T;
  }
}

template <class T, int op> MPI_Op own_op() {
  static const MPI_Op made = [] {
    MPI_Op o;
    MPI_Op_create(combine_narrow<T, op>, 1, &o);
    return o;
  }();
  return made;
}
MPI_Op mpi_op(int type, int op) {
  using trainyard::base::bf16, trainyard::base::f16;
  if (type == 6) return op == 0 ? own_op<f16, 0>() : op == 2 ? own_op<f16, 2>() : own_op<f16, 3>();
  if (type == 9) return op == 0 ? own_op<bf16, 0>() : op == 2 ? own_op<bf16, 2>() : own_op<bf16, 3>();
  return op == 0 ? MPI_SUM : op == 2 ? MPI_MAX : MPI_MIN;
}

struct Waiting {
  bool send;
  void* data;
  std::size_t bytes;
  int peer;
  Comm* comm;
  void* stream;
};
// Messages that MPI is sending.
struct Sent {
  std::vector<char> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};
std::mutex sending;
std::deque<Sent> sent;  // addresses stay

void send_away(const Waiting& w) {
  std::lock_guard lock(sending);
  while (!sent.empty()) {
    int done = 0;
    MPI_Test(&sent.front().request, &done, MPI_STATUS_IGNORE);
    if (done == 0) break;
    sent.pop_front();
  }
  const auto* data = static_cast<const char*>(w.data);
  auto& message = sent.emplace_back();
  message.bytes.assign(data, data + w.bytes);
  MPI_Isend(message.bytes.data(), static_cast<int>(w.bytes), MPI_BYTE, w.peer, 0, w.comm->mpi, &message.request);
}

void receive_later(const Waiting& w) {
  auto& stream = *static_cast<emulator::Stream*>(w.stream);
  std::lock_guard lock(*stream.guard);
  stream.queue.push_back(
      {[w] { MPI_Recv(w.data, static_cast<int>(w.bytes), MPI_BYTE, w.peer, 0, w.comm->mpi, MPI_STATUS_IGNORE); },
       nullptr, nullptr, true});
}
// First does the receives that were called earlier on the stream, because other ranks wait for this rank to receive.
void after_all_before(emulator::Stream& stream) {
  std::lock_guard lock(*stream.guard);
  while (!stream.queue.empty()) emulator::do_next(stream);
}
thread_local int depth = 0;
thread_local std::vector<Waiting> waiting;

constexpr std::size_t most_of_a_group = 2048;  // as NCCL's documentation has it

Result run_waiting() {
  if (waiting.size() > most_of_a_group) {
    waiting.clear();
    return invalid_usage;
  }
  const auto sends = std::count_if(waiting.begin(), waiting.end(), [](const Waiting& w) { return w.send; });
  if (sends == 0 || sends == static_cast<std::ptrdiff_t>(waiting.size())) {
    for (const auto& w : waiting) w.send ? send_away(w) : receive_later(w);
    waiting.clear();
    return success;
  }
  for (const auto& w : waiting) after_all_before(*static_cast<emulator::Stream*>(w.stream));
  std::vector<MPI_Request> requests(waiting.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto& w = waiting[i];
    if (!w.send) MPI_Irecv(w.data, static_cast<int>(w.bytes), MPI_BYTE, w.peer, 0, w.comm->mpi, &requests[i]);
  }
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto& w = waiting[i];
    if (w.send) MPI_Isend(w.data, static_cast<int>(w.bytes), MPI_BYTE, w.peer, 0, w.comm->mpi, &requests[i]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  waiting.clear();
  return success;
}

}  // namespace

extern "C" {

struct ncclUniqueId {
  char internal[128];
};

int ncclGetVersion(int* version) {
  *version = 22803;
  return success;
}
// The id holds the rank that asked, how often it has asked, and a filling.
int ncclGetUniqueId(ncclUniqueId* id) {
  static int asked = 0;
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  std::memset(id->internal, 7, sizeof id->internal);
  std::memcpy(id->internal, &me, sizeof me);
  std::memcpy(id->internal + 4, &++asked, sizeof asked);
  return success;
}
// Takes any ranks of the world, in any order. Each sends its place to the rank that made the id, which sends all of
// them the list. Refuses a damaged id, for which the real library would wait for ever.
int ncclCommInitRank(Comm** comm, int ranks, ncclUniqueId id, int rank) {
  int size = 0, me = 0, root = 0, asked = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  std::memcpy(&root, id.internal, sizeof root);
  std::memcpy(&asked, id.internal + 4, sizeof asked);
  for (std::size_t i = 8; i < sizeof id.internal; ++i)
    if (id.internal[i] != 7) return invalid_argument;
  if (ranks > size || rank < 0 || rank >= ranks || root >= size) return invalid_usage;
  std::vector<int> members(static_cast<std::size_t>(ranks), -1);
  const int tag = 1 + asked % 1000;
  int mine[2] = {rank, me};
  if (me == root) {
    members[static_cast<std::size_t>(rank)] = me;
    for (int i = 1; i < ranks; ++i) {
      int place[2];
      MPI_Recv(place, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      members[static_cast<std::size_t>(place[0])] = place[1];
    }
    for (const int other : members)
      if (other != me) MPI_Send(members.data(), ranks, MPI_INT, other, tag, MPI_COMM_WORLD);
  } else {
    MPI_Send(mine, 2, MPI_INT, root, tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), ranks, MPI_INT, root, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, ranks, members.data(), &part);
  *comm = new Comm;
  const int made = MPI_Comm_create_group(MPI_COMM_WORLD, part, tag, &(*comm)->mpi);
  MPI_Group_free(&part);
  MPI_Group_free(&world);
  return made == MPI_SUCCESS ? success : invalid_usage;
}
int ncclCommDestroy(Comm* comm) {
  delete comm;
  return success;
}
// The real function frees the communicator even during a call. This one reports that and aborts.
int ncclCommAbort(Comm* comm) {
  if (comm->inside > 0) {
    std::fputs("stand-in NCCL: aborted inside of a call\n", stderr);
    std::abort();
  }
  return ncclCommDestroy(comm);
}
// TRAINYARD_STANDIN_NCCL_FAILS: as if a peer had ended.
int ncclCommGetAsyncError(Comm*, int* error) {
  *error = std::getenv("TRAINYARD_STANDIN_NCCL_FAILS") != nullptr ? remote_error : success;
  return success;
}
const char* ncclGetErrorString(int result) {
  return result == success            ? "no error"
         : result == invalid_argument ? "invalid argument"
         : result == remote_error     ? "remote process exited"
                                      : "invalid usage";
}

int ncclAllReduce(const void* in, void* out, std::size_t n, int type, int op, Comm* comm, void* stream) {
  after_all_before(*static_cast<emulator::Stream*>(stream));
  const Inside inside(comm);
  std::memmove(out, in, n * static_cast<std::size_t>(width_of(type)));
  MPI_Allreduce(MPI_IN_PLACE, out, static_cast<int>(n), mpi_type(type), mpi_op(type, op), comm->mpi);
  return success;
}
int ncclAllGather(const void* in, void* out, std::size_t n, int type, Comm* comm, void* stream) {
  after_all_before(*static_cast<emulator::Stream*>(stream));
  int rank = 0;
  MPI_Comm_rank(comm->mpi, &rank);
  const auto bytes = n * static_cast<std::size_t>(width_of(type));
  std::memmove(static_cast<char*>(out) + static_cast<std::size_t>(rank) * bytes, in, bytes);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, out, static_cast<int>(bytes), MPI_BYTE, comm->mpi);
  return success;
}
int ncclReduceScatter(const void* in, void* out, std::size_t n, int type, int op, Comm* comm, void* stream) {
  after_all_before(*static_cast<emulator::Stream*>(stream));
  MPI_Reduce_scatter_block(in, out, static_cast<int>(n), mpi_type(type), mpi_op(type, op), comm->mpi);
  return success;
}
int ncclBroadcast(const void* in, void* out, std::size_t n, int type, int root, Comm* comm, void* stream) {
  after_all_before(*static_cast<emulator::Stream*>(stream));
  if (in != out) std::memmove(out, in, n * static_cast<std::size_t>(width_of(type)));
  MPI_Bcast(out, static_cast<int>(n * static_cast<std::size_t>(width_of(type))), MPI_BYTE, root, comm->mpi);
  return success;
}
int ncclSend(const void* data, std::size_t n, int type, int peer, Comm* comm, void* stream) {
  waiting.push_back({true, const_cast<void*>(data), n * static_cast<std::size_t>(width_of(type)), peer, comm, stream});
  return depth == 0 ? run_waiting() : success;
}
int ncclRecv(void* data, std::size_t n, int type, int peer, Comm* comm, void* stream) {
  waiting.push_back({false, data, n * static_cast<std::size_t>(width_of(type)), peer, comm, stream});
  return depth == 0 ? run_waiting() : success;
}
int ncclGroupStart() {
  ++depth;
  return success;
}
int ncclGroupEnd() { return --depth == 0 ? run_waiting() : success; }

}  // extern "C"
