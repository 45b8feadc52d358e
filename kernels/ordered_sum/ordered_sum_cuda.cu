// The ordered reduction: each thread adds the contributions to its elements in ascending row order, each rounded once.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void ordered_sum_kernel(OrderedSumArgs a) {
  T* sum = static_cast<T*>(a.sum.data);
  TRAINYARD_EACH(i, a.pieces.cols) {
    T acc = a.next ? sum[i] : a.pieces.row<T>(0)[i];
    for (std::int64_t p = a.next ? 0 : 1; p < a.pieces.rows; ++p) acc += a.pieces.row<T>(p)[i];
    sum[i] = acc;
  }
}

}  // namespace

const char* gpu::ordered_sum(const OrderedSumArgs& a, void* stream) {
  if (a.sum.type == Type::f64)
    TRAINYARD_LAUNCH(ordered_sum_kernel<double>, false, blocks_for(a.pieces.cols), 256, stream, a);
  else TRAINYARD_LAUNCH(ordered_sum_kernel<float>, false, blocks_for(a.pieces.cols), 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
