// The element-wise parts of the Newton-Schulz iterations, with every operation rounded on its own.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

__global__ void newton_schulz_kernel(NewtonSchulzArgs s) {
  const double inverse = s.part == NewtonSchulzPart::normalise ? inverse_norm(s.limbs) : 0;
  TRAINYARD_EACH(i, s.out.rows * s.out.cols) {
    const std::int64_t r = i / s.out.cols, c = i % s.out.cols;
    const float in = s.in.row<float>(r)[c];
    float& out = s.out.row<float>(r)[c];
    switch (s.part) {
      case NewtonSchulzPart::normalise: out = static_cast<float>(static_cast<double>(in) * inverse); break;
      case NewtonSchulzPart::polynomial: {
        const float sum = __fadd_rn(__fmul_rn(s.polynomial.b, in), __fmul_rn(s.polynomial.c, out));
        out = r == c ? __fadd_rn(sum, s.polynomial.a) : sum;
        break;
      }
      case NewtonSchulzPart::scale: out = __fmul_rn(s.scale, in); break;
    }
  }
}

}  // namespace

const char* gpu::newton_schulz(const NewtonSchulzArgs& s, void* stream) {
  TRAINYARD_LAUNCH(newton_schulz_kernel, false, blocks_for(s.out.rows * s.out.cols), 256, stream, s);
  return launch_failure();
}

}  // namespace trainyard::kernels
