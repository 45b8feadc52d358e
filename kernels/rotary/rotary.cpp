// Computes the table of angles, and dispatches.
#include "kernels/rotary/rotary.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/rotary/rotary_args.h"
#include "libtrain/plan/blocks/scratch.h"

#include <algorithm>
#include <cmath>

namespace trainyard::kernels {

namespace {

// Computes one power for each frequency. A row with the position of the row T rows earlier is copied from there; in a
// batch of unbroken sequences this holds for every later sequence.
void make_table(double* table, base::View positions, std::int64_t head_dim, double base) {
  const auto half = head_dim / 2, T = positions.cols();
  const auto* p = positions.ptr<std::int32_t>();
  const auto repeats = [&](std::int64_t r) { return r >= T && p[r] == p[r - T]; };
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (std::int64_t r = 0; r < positions.count(); ++r) {
      if (repeats(r)) continue;
      table[r * head_dim + i] = std::cos(p[r] * frequency);
      table[r * head_dim + half + i] = std::sin(p[r] * frequency);
    }
  }
  for (std::int64_t r = T; r < positions.count(); ++r)
    if (repeats(r)) std::copy_n(table + (r - T) * head_dim, head_dim, table + r * head_dim);
}

void run(tensor::Exec& exec, base::View x, base::View positions, std::int64_t heads, std::int64_t head_dim, double base,
         double direction) {
  const char* operation = direction > 0 ? "rotary_forward" : "rotary_backward";
  require_types(x, working_types, operation, "x");
  require_type(positions, trainyard::base::DType::i32, operation, "positions");
  require_shape(x, positions.count(), heads * head_dim, "rotary");
  TRAINYARD_ASSERT(head_dim % 2 == 0, "head size {} is odd", head_dim);
  exec.run([&exec, x, positions, heads, head_dim, base, direction] {
    if (exec.on_gpu()) {
      const RotaryGpuArgs a{mat(x), positions.ptr<std::int32_t>(), heads, head_dim, base, direction};
      return tensor::require_gpu(gpu_kernels().rotary(a, exec.stream()), "rotary on the GPU");
    }
    tensor::ArenaScope scope(exec.scratch());
    auto* table = static_cast<double*>(
        exec.scratch().allocate_bytes(trainyard::plan::rotary_scratch_bytes(positions.count(), head_dim)));
    make_table(table, positions, head_dim, base);
    RotaryArgs a{mat(x), table, heads, head_dim, direction, exec.threads()};
    TRAINYARD_CPU_CALL(rotary_cpu, (a));
  });
}

}  // namespace

void rotary_forward(tensor::Exec& exec, base::View x, base::View positions, std::int64_t heads, std::int64_t head_dim,
                    double base) {
  run(exec, x, positions, heads, head_dim, base, 1);
}
void rotary_backward(tensor::Exec& exec, base::View x, base::View positions, std::int64_t heads, std::int64_t head_dim,
                     double base) {
  run(exec, x, positions, heads, head_dim, base, -1);
}

}  // namespace trainyard::kernels
