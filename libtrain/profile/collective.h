// Collective: one operation of one group with buffers of its own, called again and again, and its result checked.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/profile/ranks.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::profile {

// all_reduce, all_gather, reduce_scatter, ordered_reduce_scatter, all_to_all, broadcast, exchange (each rank sends to
// the next one and receives from the one before).
const std::vector<std::string>& operation_names();
bool offers(const std::string& operation, base::DType dtype);  // the ordered reduction adds f32 only

// What a rank holds when asked for `bytes`, as nccl-tests counts: `bytes` of the larger buffer (all ranks' pieces
// together where there are pieces), `count` elements of the smaller one. Pieces are equal, so the size is rounded down
// to whole elements of each, and up to one.
struct Size {
  std::int64_t bytes = 0, count = 0;
};
Size shape_of(const std::string& operation, int ranks, base::DType dtype, std::int64_t bytes);

// Memory for the largest size, in fresh pages, on the device of the Exec.
class Buffers {
 public:
  Buffers(base::Device device, std::int64_t largest_bytes);
  void *in, *out, *staging;
  char* host;  // what goes to and comes from a GPU; on a CPU null

 private:
  std::vector<char> host_;
  tensor::Arena arena_;
};

// One period of a rank's values, and of what those of all ranks add up to; the same for all sizes.
struct Pattern {
  std::vector<char> values, sums;
};

class Collective {
 public:
  Collective(std::string operation, comm::Communicator& comm, tensor::Exec& exec, base::DType dtype, Size size,
             const Buffers& buffers);

  void prepare();  // known values in, nonsense out
  void clear();    // zeros in place, so that an all_reduce that is repeated stays finite
  void call();     // on a GPU: submits
  // After one call since prepare() (any number, except for all_reduce): elements of this rank that are not what the
  // ranks' values make, to the last bit. Sums in the library's order are of whole numbers, which no order rounds; the
  // ordered reduction is held to its order with numbers that round.
  std::int64_t wrong();

 private:
  base::View view(void* data, std::int64_t count) const;
  std::string operation_;
  comm::Communicator& comm_;
  tensor::Exec& exec_;
  base::DType dtype_;
  Size size_;
  void *in_, *out_, *staging_;
  std::vector<std::int64_t> counts_;
  std::shared_ptr<const Pattern> pattern_;
  char* host_;
};

}  // namespace trainyard::profile
