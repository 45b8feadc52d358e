// The rotation: each thread takes one pair of channels, for all heads. Angles are in double.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void rotary_kernel(RotaryGpuArgs a) {
  using F = compute_t<T>;
  const auto half = a.frequencies.width / 2;
  TRAINYARD_EACH(i, a.x.rows * half) {  // all heads share the angle
    const auto [r, pair] = place_of(i, half);
    const double angle = a.positions[r] * frequency_of(a.frequencies, pair), amplitude = a.frequencies.amplitude;
    const F c = static_cast<F>(amplitude * cos(angle)), s = static_cast<F>(a.direction * amplitude * sin(angle));
    for (std::int64_t h = 0; h < a.heads; ++h) {
      T* low = a.x.row<T>(r) + h * a.head_dim + pair;
      T* high = low + half;
      const F u = widen(*low), v = widen(*high);
      store(low, u * c - v * s);
      store(high, v * c + u * s);
    }
  }
}

}  // namespace

const char* gpu::rotary(const RotaryGpuArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(rotary_kernel<T>, false, blocks_for(a.x.rows * a.frequencies.width / 2), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels
