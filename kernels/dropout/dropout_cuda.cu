// Dropout: four channels, which share a Philox block, a thread.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void dropout_kernel(DropoutArgs a) {
  using F = compute_t<T>;
  const F scale = sizeof(F) == 8 ? static_cast<F>(a.scale64) : static_cast<F>(a.scale);
  const auto quads = (a.x.cols + 3) / 4;
  TRAINYARD_EACH(i, a.x.rows * quads) {
    const auto r = i / quads, c0 = i % quads * 4;
    Words words{};
    if (a.active) words = philox_words(a.seed, a.site, (a.samples[r / a.sequence] << 34) + (static_cast<std::uint64_t>(r % a.sequence) << 14) + static_cast<std::uint64_t>(c0 / 4));
    for (auto c = c0; c < c0 + 4 && c < a.x.cols; ++c) {
      const F x = widen(a.x.row<T>(r)[c]);
      const F kept = !a.active ? x : words.w[c - c0] >= a.threshold ? x * scale : F(0);
      store(a.y.row<T>(r) + c, a.residual.empty() ? kept : static_cast<F>(widen(a.residual.row<T>(r)[c])) + kept);
    }
  }
}

}  // namespace

const char* gpu::dropout(const DropoutArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(dropout_kernel<T>, false, blocks_for(a.x.rows * ((a.x.cols + 3) / 4)), 256, stream, a); });
  return launch_failure();
}

}  // namespace trainyard::kernels
