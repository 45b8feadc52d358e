// The sequences of muon.h, element by element.
#include "kernels/muon/muon_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// M is the type of m.
template <class M, bool nesterov> void direction_range(const MuonArgs& a, int64_t from, int64_t to) {
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

void step_range(const MuonArgs& a, int64_t from, int64_t to) {
  const float* __restrict update = a.update.ptr<float>();
  float* __restrict p = a.parameter.ptr<float>();
#pragma omp simd
  for (int64_t i = from; i < to; ++i) p[i] = p[i] - a.learning_rate * (update[i] + a.weight_decay * p[i]);
  if (a.working.empty()) return;
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

}  // namespace

void muon_cpu(const MuonArgs& a) {
  constexpr int64_t block = 8192;
  const auto elements = [](const auto& x) { return x.rows * x.cols; };
  const int64_t n = a.m.empty() ? elements(a.update) : elements(a.m), blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 2)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t from = b * block, to = from + block < n ? from + block : n;
    if (a.m.empty()) step_range(a, from, to);
    else
      with_type_of_f32_sums(a.m.type, [&]<class M>(M*) {
        if (a.nesterov) direction_range<M, true>(a, from, to);
        else direction_range<M, false>(a, from, to);
      });
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
