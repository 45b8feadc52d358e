// Computes the table of angles, and dispatches.
#include "kernels/rotary/rotary.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/rotary/rotary_args.h"
#include "kernels/rotary/rotary_frequencies.h"
#include "libtrain/plan/blocks/scratch.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace trainyard::kernels {

namespace {

// Computes one power for each frequency. A row with the position of the row T rows earlier is copied from there; in a
// batch of unbroken sequences this holds for every later sequence.
void make_table(double* table, base::ConstView positions, const RotaryFrequencies& f) {
  const auto width = f.width, half = width / 2, T = positions.cols();
  const auto* p = positions.ptr<std::int32_t>();
  const auto repeats = [&](std::int64_t r) { return r >= T && p[r] == p[r - T]; };
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = frequency_of(f, i);
    for (std::int64_t r = 0; r < positions.count(); ++r) {
      if (repeats(r)) continue;
      table[r * width + i] = f.amplitude * std::cos(p[r] * frequency);
      table[r * width + half + i] = f.amplitude * std::sin(p[r] * frequency);
    }
  }
  for (std::int64_t r = T; r < positions.count(); ++r)
    if (repeats(r)) std::copy_n(table + (r - T) * width, width, table + r * width);
}

// YaRN's ramp: the numbers of the pairs that turn beta_fast and beta_slow times within `original` tokens, as fractions
// below and above, and within the width.
double turning_pair(const RotaryHeads& h, double width, double turns) {
  return width * std::log(static_cast<double>(h.config.original) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(h.base));
}

RotaryFrequencies frequencies_of(const RotaryHeads& h) {
  const auto& c = h.config;
  RotaryFrequencies out{.width = plan::rotated_width(c, h.head_dim),
                        .base = h.base,
                        .scaling = c.scaling,
                        .factor = c.factor,
                        .original = static_cast<double>(c.original)};
  if (c.scaling == plan::RotaryScaling::llama3) out.begin = c.low, out.end = c.high;
  if (c.scaling == plan::RotaryScaling::yarn) {
    const auto width = static_cast<double>(out.width);
    out.begin = std::max(0.0, std::floor(turning_pair(h, width, c.beta_fast)));
    out.end = std::min(width - 1, std::ceil(turning_pair(h, width, c.beta_slow)));
    if (out.begin == out.end) out.end += 0.001;
    out.amplitude = c.attention_factor > 0 ? c.attention_factor : 0.1 * std::log(c.factor) + 1;
  }
  return out;
}

// As the arguments of rotary_forward; direction is 1, or -1 for the inverse rotation.
struct Rotation {
  base::View x;
  base::ConstView positions;
  RotaryHeads heads;
  double direction;
};
void run(tensor::Exec& exec, const Rotation& rotation) {
  const char* operation = rotation.direction > 0 ? "rotary_forward" : "rotary_backward";
  require_types(rotation.x, working_types, operation, "x");
  require_type(rotation.positions, base::DType::i32, operation, "positions");
  require_shape(rotation.x, rotation.positions.count(), rotation.heads.heads * rotation.heads.head_dim, "rotary");
  const auto f = frequencies_of(rotation.heads);
  TRAINYARD_ASSERT(f.width >= 2 && f.width <= rotation.heads.head_dim, "{} of {} channels rotate", f.width,
                   rotation.heads.head_dim);
  if (rotation.x.count() == 0) return;
  exec.run([&exec, f, r = rotation] {
    const auto [heads, head_dim] = std::pair(r.heads.heads, r.heads.head_dim);
    if (exec.on_gpu()) {
      const RotaryGpuArgs a{.x = mat(r.x),
                            .positions = r.positions.ptr<std::int32_t>(),
                            .heads = heads,
                            .head_dim = head_dim,
                            .frequencies = f,
                            .direction = r.direction};
      return tensor::require_gpu(gpu_kernels().rotary(a, exec.stream()), "rotary on the GPU");
    }
    tensor::ArenaScope scope(exec.scratch());
    auto* table =
        static_cast<double*>(exec.scratch().allocate_bytes(plan::rotary_scratch_bytes(r.positions.count(), f.width)));
    make_table(table, r.positions, f);
    const RotaryArgs a{.x = mat(r.x),
                       .table = table,
                       .heads = heads,
                       .head_dim = head_dim,
                       .width = f.width,
                       .direction = r.direction,
                       .threads = exec.threads()};
    TRAINYARD_CPU_CALL(rotary_cpu, (a));
  });
}

}  // namespace

void rotary_forward(tensor::Exec& exec, base::View x, base::ConstView positions, const RotaryHeads& heads) {
  run(exec, {.x = x, .positions = positions, .heads = heads, .direction = 1});
}
void rotary_backward(tensor::Exec& exec, base::View x, base::ConstView positions, const RotaryHeads& heads) {
  run(exec, {.x = x, .positions = positions, .heads = heads, .direction = -1});
}

}  // namespace trainyard::kernels
