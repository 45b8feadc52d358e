// A plain scan, which runs once, after a step has failed.
#include "kernels/finite/finite.h"

#include "kernels/check.h"
#include "libtrain/tensor/gpu.h"

#include <cmath>
#include <type_traits>
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
    return base::with_value_type(x.dtype, [&]<class T>(T*) {
      return std::isfinite(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(x.row<T>(r)[c]));
    });
  };
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t c = 0; c < x.cols(); ++c)
      if (!finite(r, c)) return r * x.cols() + c;
  return -1;
}

}  // namespace trainyard::kernels
