// The product: operands packed into panels by the whole team, then micro-tiles of registers. No library, no heap.
#include "kernels/gemm/gemm_cpu.h"

#include "kernels/micro_tile_cpu.h"
#include "libtrain/plan/scratch.h"

#include <omp.h>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int64_t kb_max = plan::gemm_block_k;

template <class T> void pack_block(const Mat& x, int trans, int64_t first, int64_t count, int width, int64_t k0,
                                   int64_t kb, float* out, int share, int shares) {
  const T* data = static_cast<const T*>(x.data);
  const int64_t si = trans ? 1 : x.pitch, sp = trans ? x.pitch : 1;
  const int64_t panels = (count + width - 1) / width;
  for (int64_t q = panels * share / shares; q < panels * (share + 1) / shares; ++q) {
    const int64_t i0 = first + q * width, have = count - q * width < width ? count - q * width : width;
    pack_panel(data + i0 * si + k0 * sp, si, sp, have, width, kb, out + q * width * kb);
  }
}

struct Block {
  int64_t i0, mb, j0, nb, kb;
  int first, last;  // of the blocks over k
};

// Finishes rows [i, i + rows) and columns [j, j + cols) of the result: bias, GELU, rounding from the f32 block.
template <class C> void finish(const GemmArgs& g, int64_t i, int64_t rows, int64_t j, int64_t cols, const float* block,
                               int64_t block_pitch) {
  for (int64_t r = 0; r < rows; ++r) {
    C* out = g.c.row<C>(i + r) + j;
    const float* in = block + r * block_pitch;
    const C* bias = g.bias.empty() ? nullptr : static_cast<const C*>(g.bias.data) + j;
    C* gelu = g.gelu.empty() ? nullptr : g.gelu.row<C>(i + r) + j;
    for (int64_t q = 0; q < cols; ++q) {
      const float v = bias ? in[q] + widen(bias[q]) : in[q];
      store(&out[q], v);
    }
    if (gelu)
      for (int64_t q = 0; q < cols; ++q) store(&gelu[q], gelu_of(widen(out[q])));
  }
}

// Tasks are taken as threads become free: which thread computes a tile does not change its bits.
template <class C> void multiply_block(const GemmArgs& g, const Block& b, const float* pa, const float* pb, float* wide,
                                       int64_t wide_pitch, int64_t* next) {
  constexpr bool narrow = sizeof(C) == 2;
  constexpr int64_t group_m = 6, group_n = 4;  // panels of one task
  const int64_t pm = (b.mb + mr - 1) / mr, pn = (b.nb + nr - 1) / nr;
  const int64_t tm = (pm + group_m - 1) / group_m, tn = (pn + group_n - 1) / group_n, tasks = tm * tn;
  const int add = !b.first || g.accumulate;
  for (int64_t t = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); t < tasks;
       t = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) {
    const int64_t qi0 = t / tn * group_m, qj0 = t % tn * group_n;
    for (int64_t qj = qj0; qj < qj0 + group_n && qj < pn; ++qj)
      for (int64_t qi = qi0; qi < qi0 + group_m && qi < pm; ++qi) {
        const int64_t i = qi * mr, j = qj * nr;
        const int64_t rows = b.mb - i < mr ? b.mb - i : mr, cols = b.nb - j < nr ? b.nb - j : nr;
        const float* a = pa + i * b.kb;
        const float* c = pb + j * b.kb;
        float edge[mr * nr];
        float* to;
        int64_t pitch;
        if constexpr (narrow) to = wide + i * wide_pitch + j, pitch = wide_pitch;
        else to = reinterpret_cast<float*>(g.c.row<C>(b.i0 + i) + b.j0 + j), pitch = g.c.pitch;
        if (narrow || (rows == mr && cols == nr)) {
          micro_tile(b.kb, a, c, to, pitch, narrow ? !b.first : add);
        } else {
          micro_tile(b.kb, a, c, edge, nr, 0);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t q = 0; q < cols; ++q)
              to[r * pitch + q] = add ? to[r * pitch + q] + edge[r * nr + q] : edge[r * nr + q];
        }
        if (b.last && (narrow || !g.bias.empty() || !g.gelu.empty()))
          finish<C>(g, b.i0 + i, rows, b.j0 + j, cols, to, pitch);
      }
  }
}

template <class T, class C> void product(const GemmArgs& g) {
  const auto mb_max = plan::gemm_block_m, nb_max = plan::gemm_block_n;
  const int64_t mb0 = base::round_up(g.m, 84) < mb_max ? base::round_up(g.m, 84) : mb_max;
  const int64_t nb0 = base::round_up(g.n, 32) < nb_max ? base::round_up(g.n, 32) : nb_max;
  const int64_t kb0 = g.k < kb_max ? g.k : kb_max;
  char* scratch = static_cast<char*>(g.scratch);
  float* pa = reinterpret_cast<float*>(scratch);
  float* pb = reinterpret_cast<float*>(scratch + base::aligned(mb0 * kb0 * 4));
  float* wide = reinterpret_cast<float*>(scratch + base::aligned(mb0 * kb0 * 4) + base::aligned(nb0 * kb0 * 4));
  int64_t next[2] = {0, 0};  // of this block and the one before, by turns
#pragma omp parallel num_threads(g.threads)
  {
    int turn = 0;
    const int share = omp_get_thread_num(), shares = omp_get_num_threads();
    for (int64_t j0 = 0; j0 < g.n; j0 += nb_max)
      for (int64_t i0 = 0; i0 < g.m; i0 += mb_max)
        for (int64_t k0 = 0; k0 < g.k; k0 += kb_max) {
          Block b{i0,
                  g.m - i0 < mb_max ? g.m - i0 : mb_max,
                  j0,
                  g.n - j0 < nb_max ? g.n - j0 : nb_max,
                  g.k - k0 < kb_max ? g.k - k0 : kb_max,
                  k0 == 0,
                  k0 + kb_max >= g.k};
          pack_block<T>(g.b, !g.trans_b, b.j0, b.nb, nr, k0, b.kb, pb, share, shares);
          pack_block<T>(g.a, g.trans_a, b.i0, b.mb, mr, k0, b.kb, pa, share, shares);
#pragma omp barrier
          if (share == 0) __atomic_store_n(&next[1 - turn], 0, __ATOMIC_RELAXED);
          multiply_block<C>(g, b, pa, pb, wide, nb0, &next[turn]);
          turn = 1 - turn;
#pragma omp barrier
        }
  }
}

void product_f64(const GemmArgs& g) {
#pragma omp parallel for num_threads(g.threads) schedule(static)
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < g.k; ++p)
        sum += (g.trans_a ? g.a.row<double>(p)[i] : g.a.row<double>(i)[p]) *
               (g.trans_b ? g.b.row<double>(j)[p] : g.b.row<double>(p)[j]);
      double& c = g.c.row<double>(i)[j];
      c = (g.accumulate ? c + sum : sum) + (g.bias.empty() ? 0.0 : static_cast<const double*>(g.bias.data)[j]);
      if (!g.gelu.empty()) g.gelu.row<double>(i)[j] = gelu_of(c);
    }
}

}  // namespace

void gemm_cpu(const GemmArgs& g) {
  if (g.a.type == Type::f64) product_f64(g);
  else if (g.a.type == Type::f32) product<float, float>(g);
  else if (g.c.type == Type::f32) product<b16, float>(g);
  else product<b16, b16>(g);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
