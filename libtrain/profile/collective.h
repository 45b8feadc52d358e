// Collective: one operation of one group with buffers of its own. It is called again and again, and its result is
// checked.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/profile/ranks.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::profile {

// The operations: all_reduce, all_gather, reduce_scatter, ordered_reduce_scatter, all_to_all, broadcast, exchange (each
// rank sends to the next rank and receives from the previous one).
const std::vector<std::string>& operation_names();
bool offers(const std::string& operation, base::DType dtype);  // the ordered reduction adds f32 only

// The buffers of a rank for a size of `bytes`, as nccl-tests counts. `bytes` is the size of the larger buffer; if there
// are pieces, it has the pieces of all ranks. `count` is the number of elements in the smaller buffer. Pieces are
// equal, so the size is rounded down to whole elements of each piece, but to one element at least.
struct Size {
  std::int64_t bytes = 0, count = 0;
};
Size shape_of(const std::string& operation, int ranks, base::DType dtype, std::int64_t bytes);

// Memory for the largest size, in fresh pages, on the Exec's device.
class Buffers {
 public:
  Buffers(base::Device device, std::int64_t largest_bytes);
  void *in, *out, *staging;
  char* host;  // data that goes to and comes from a GPU; null on a CPU

 private:
  std::vector<char> host_;
  tensor::Arena arena_;
};

// One period of a rank's values, and of the sums over all ranks; the same for all sizes.
struct Pattern {
  std::vector<char> values, sums;
};

class Collective {
 public:
  Collective(std::string operation, comm::Communicator& comm, tensor::Exec& exec, base::DType dtype, Size size,
             const Buffers& buffers);

  void prepare();  // known values into `in`, nonsense into `out`
  void clear();    // zeros in place, so that a repeated all_reduce stays finite
  void call();     // on a GPU: submits
  // Returns how many elements of this rank differ, in any bit, from what the ranks' values make. There must have been
  // one call since prepare(), or any number for operations other than all_reduce. Sums in the library's order are
  // checked with whole numbers, which no order rounds. The ordered reduction is checked with numbers that round, and so
  // is its order.
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
