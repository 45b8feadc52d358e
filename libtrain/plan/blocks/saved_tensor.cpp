// Bytes of saved tensors.
#include "libtrain/plan/blocks/saved_tensor.h"

#include "libtrain/base/aligned.h"

#include <vector>

namespace trainyard::plan {

std::int64_t SavedTensor::bytes() const {
  return base::aligned(base::size_of(dtype) * (rows == one_dim ? 1 : rows) * cols);
}

std::int64_t total_bytes(const std::vector<SavedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& t : tensors) bytes += t.bytes();
  return bytes;
}

std::vector<SavedTensor> only(std::vector<SavedTensor> tensors, Stays stays) {
  std::erase_if(tensors, [&](const SavedTensor& t) { return t.stays != stays; });
  return tensors;
}

}  // namespace trainyard::plan
