// A plain scan, which runs once, after a step has failed.
#include "kernels/finite/finite.h"

#include "kernels/check.h"
#include "libtrain/tensor/gpu.h"

#include <cmath>
#include <vector>

namespace trainyard::kernels {

std::int64_t first_nonfinite(tensor::Exec& exec, base::ConstView x) {
  std::vector<char> host;
  if (exec.on_gpu()) {  // the whole tensor is copied to the host, which is affordable once, after a failure
    host.resize(base::size(x.rows() * x.pitch * base::size_of(x.dtype)));
    const auto rows = x.rows() - 1;  // memory may end before the last row's pitch does
    tensor::require_gpu(tensor::gpu_module().runtime->copy(
                            host.data(), x.data, (rows * x.pitch + x.cols()) * base::size_of(x.dtype), exec.stream()),
                        "copying");
    x.data = host.data();
  }
  exec.synchronize();
  const auto finite = [&](std::int64_t r, std::int64_t c) {
    switch (x.dtype) {
      case base::DType::f32: return std::isfinite(x.row<float>(r)[c]);
      case base::DType::f64: return std::isfinite(x.row<double>(r)[c]);
      case base::DType::bf16: return std::isfinite(static_cast<float>(x.row<base::bf16>(r)[c]));
      default: return true;
    }
  };
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t c = 0; c < x.cols(); ++c)
      if (!finite(r, c)) return r * x.cols() + c;
  return -1;
}

}  // namespace trainyard::kernels
