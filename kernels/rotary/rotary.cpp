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
void make_table(double* table, base::ConstView positions, std::int64_t head_dim, double base) {
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

// As the arguments of rotary_forward; direction is 1, or -1 for the inverse rotation.
struct Rotation {
  base::View x;
  base::ConstView positions;
  std::int64_t heads, head_dim;
  double base, direction;
};
void run(tensor::Exec& exec, const Rotation& rotation) {
  const char* operation = rotation.direction > 0 ? "rotary_forward" : "rotary_backward";
  require_types(rotation.x, working_types, operation, "x");
  require_type(rotation.positions, base::DType::i32, operation, "positions");
  require_shape(rotation.x, rotation.positions.count(), rotation.heads * rotation.head_dim, "rotary");
  TRAINYARD_ASSERT(rotation.head_dim % 2 == 0, "head size {} is odd", rotation.head_dim);
  if (rotation.x.count() == 0) return;
  exec.run([&exec, r = rotation] {
    if (exec.on_gpu()) {
      const RotaryGpuArgs a{.x = mat(r.x),
                            .positions = r.positions.ptr<std::int32_t>(),
                            .heads = r.heads,
                            .head_dim = r.head_dim,
                            .base = r.base,
                            .direction = r.direction};
      return tensor::require_gpu(gpu_kernels().rotary(a, exec.stream()), "rotary on the GPU");
    }
    tensor::ArenaScope scope(exec.scratch());
    auto* table = static_cast<double*>(
        exec.scratch().allocate_bytes(plan::rotary_scratch_bytes(r.positions.count(), r.head_dim)));
    make_table(table, r.positions, r.head_dim, r.base);
    const RotaryArgs a{.x = mat(r.x),
                       .table = table,
                       .heads = r.heads,
                       .head_dim = r.head_dim,
                       .direction = r.direction,
                       .threads = exec.threads()};
    TRAINYARD_CPU_CALL(rotary_cpu, (a));
  });
}

}  // namespace

void rotary_forward(tensor::Exec& exec, base::View x, base::ConstView positions, std::int64_t heads,
                    std::int64_t head_dim, double base) {
  run(exec, {.x = x, .positions = positions, .heads = heads, .head_dim = head_dim, .base = base, .direction = 1});
}
void rotary_backward(tensor::Exec& exec, base::View x, base::ConstView positions, std::int64_t heads,
                     std::int64_t head_dim, double base) {
  run(exec, {.x = x, .positions = positions, .heads = heads, .head_dim = head_dim, .base = base, .direction = -1});
}

}  // namespace trainyard::kernels
