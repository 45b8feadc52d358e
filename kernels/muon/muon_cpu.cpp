// The sequence of muon.h, element by element.
#include "kernels/muon/muon_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// M is the type of m.
template <class M, bool nesterov> void direction_range(const MuonDirectionArgs& a, int64_t from, int64_t to) {
  float* __restrict gradient = a.gradient.ptr<float>();
  M* __restrict m = a.m.ptr<M>();
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    const float g = gradient[i] * a.scale;
    const float b = a.momentum * widen(m[i]) + g;
    store(&m[i], b);
    gradient[i] = nesterov ? g + a.momentum * b : b;
  }
}

}  // namespace

void muon_direction_cpu(const MuonDirectionArgs& a) {
  constexpr int64_t block = 8192;
  const int64_t n = a.m.rows * a.m.cols, blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 2)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t from = b * block, to = from + block < n ? from + block : n;
    with_type_of_f32_sums(a.m.type, [&]<class M>(M*) {
      if (a.nesterov) direction_range<M, true>(a, from, to);
      else direction_range<M, false>(a, from, to);
    });
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
