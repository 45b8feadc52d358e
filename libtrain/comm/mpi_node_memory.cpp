// Ranks of a machine show one another a word; then each group gets a shared segment.
#include "libtrain/comm/mpi_node_memory.h"

#include "libtrain/base/environment.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <cstring>
#include <sys/resource.h>

namespace trainyard::comm {

namespace {

using tensor::SharedPlace;

bool all_say(bool mine, MPI_Comm comm) {
  int on_all = mine ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &on_all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return on_all == 1;
}

// A limit on addresses also counts mappings of other ranks' memory, so a run would reach it only midway.
bool has_room_for_others() {
  rlimit addresses{};
  return getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY;
}

// A value that is neither on nor off counts as off here. Programs refuse it with their other settings, on all ranks at
// once.
bool wanted() {
  try {
    return base::shared_memory_wanted();
  } catch (const base::UsageError&) {
    return false;
  }
}

// Can this process read the word that each of the other ranks has written?
bool sees_all(const std::vector<SharedPlace>& places, int rank) {
  try {
    for (std::size_t r = 0; r < places.size(); ++r) {
      if (places[r].region == 0) return false;
      if (static_cast<int>(r) == rank) continue;
      int word = 0;
      std::memcpy(&word, tensor::memory_of_peer(places[r]), sizeof word);
      if (word != static_cast<int>(r) + 1) return false;
    }
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

bool try_sharing(MPI_Comm node) {
  int rank = 0, size = 1;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  if (!all_say(size > 1 && wanted() && has_room_for_others(), node)) return false;
  tensor::begin_sharing();
  auto* word = static_cast<int*>(tensor::reserve_shared(sizeof(int)));
  if (word != nullptr) *word = rank + 1;
  std::vector<SharedPlace> places(base::size(size));
  const auto own = word != nullptr ? tensor::shared_place(word, sizeof(int)) : SharedPlace{};
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, places.data(), sizeof own, MPI_BYTE, node), "MPI_Allgather");
  const bool shares = all_say(sees_all(places, rank), node);
  if (word != nullptr) tensor::release_shared(word, tensor::Pages::gone);
  if (!shares) tensor::end_sharing();
  return shares;
}

// MPI moves data only inside its calls, also data that was sent before.
void let_the_library_work() {
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
}

}  // namespace

MpiNode::MpiNode(int rank, int size) : first_of_node_(base::size(size), -1) {
  if (size == 1) return;
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int first = rank;
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
  if (!try_sharing(node)) first = -1;
  MPI_Comm_free(&node);
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, first_of_node_.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
}

std::unique_ptr<NodeMemory> MpiNode::memory(const std::string& group, const std::vector<int>& ranks,
                                            MPI_Comm made) const {
  const auto node = [&](int r) { return base::at(first_of_node_, r); };
  const bool together =
      node(ranks[0]) >= 0 && std::all_of(ranks.begin(), ranks.end(), [&](int r) { return node(r) == node(ranks[0]); });
  if (!together || ranks.size() == 1) return nullptr;
  int rank = 0;
  MPI_Comm_rank(made, &rank);
  const int size = static_cast<int>(ranks.size());
  const auto bytes = NodeMemory::block_bytes(size);
  void* segment = rank == 0 ? tensor::reserve_shared(bytes) : nullptr;
  auto place = segment != nullptr ? tensor::shared_place(segment, bytes) : SharedPlace{};
  check_mpi(MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, made), "MPI_Bcast");
  void* mapped = place.region != 0 ? tensor::map_writable(place) : nullptr;
  const bool all = all_say(mapped != nullptr, made);
  if (segment != nullptr)
    tensor::release_shared(segment, tensor::Pages::stay);  // the others and this rank have mapped it
  if (all) return std::make_unique<NodeMemory>(group, rank, size, mapped, let_the_library_work);
  if (mapped != nullptr) tensor::unmap_writable(mapped, place);
  return nullptr;
}

}  // namespace trainyard::comm
