// The element-wise parts of the Newton-Schulz iterations, row by row.
#include "kernels/newton_schulz/newton_schulz_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

void row_of_part(const NewtonSchulzArgs& s, double inverse, int64_t r) {
  const int64_t n = s.out.cols;
  const float* in = s.in.row<float>(r);
  float* out = s.out.row<float>(r);
  const auto [a, b, c] = s.polynomial;
  switch (s.part) {
    case NewtonSchulzPart::normalise:
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<double>(in[i]) * inverse);
      break;
    case NewtonSchulzPart::polynomial:
      for (int64_t i = 0; i < n; ++i) out[i] = b * in[i] + c * out[i];
      out[r] = out[r] + a;
      break;
    case NewtonSchulzPart::scale:
      for (int64_t i = 0; i < n; ++i) out[i] = s.scale * in[i];
      break;
  }
}

}  // namespace

void newton_schulz_cpu(const NewtonSchulzArgs& s) {
  const double inverse = s.part == NewtonSchulzPart::normalise ? inverse_norm(s.limbs) : 0;
#pragma omp parallel for num_threads(s.threads) schedule(static)
  for (int64_t r = 0; r < s.out.rows; ++r) row_of_part(s, inverse, r);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
