// The product: all threads pack operands into panels, then compute register micro-tiles. It uses no library and no
// heap.
#include "kernels/gemm/gemm_cpu.h"

#include "kernels/gemm/lane_tile_cpu.h"
#include "kernels/micro_tile_cpu.h"
#include "kernels/pack_cpu.h"
#include "kernels/team_clock_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

#include <omp.h>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int64_t kb_max = plan::gemm_block_k;

// Packs one thread's share of the panels of rows [first, first + count) of op(a), or of columns of op(b). along: these
// rows or columns are neighbours in memory.
template <bool left, class T> void pack_block(const ConstMat& x, bool along, int64_t first, int64_t count, int64_t k0,
                                              int64_t kb, float* out, int share, int shares) {
  constexpr int width = left ? mr : nr;
  const int64_t panels = (count + width - 1) / width, end = panels * (share + 1) / shares;
  int64_t q = panels * share / shares;
  if (along) {
    const T* from = x.row<T>(k0) + first + q * width;
    float* to = out + q * width * words_of<T>(kb);
    if constexpr (left) return pack_left_along(from, x.pitch, count - q * width, end - q, kb, to);
    else return pack_along<width>(from, x.pitch, count - q * width, end - q, kb, to);
  }
  for (; q < end; ++q) {
    const T* from = x.row<T>(first + q * width) + k0;
    float* to = out + q * width * words_of<T>(kb);
    if constexpr (left) pack_left_across(from, x.pitch, count - q * width, kb, to);
    else pack_across<width>(from, x.pitch, count - q * width, kb, to);
  }
}

// Counts the tasks taken of a chunk. Each task belongs to one of `owners` ranges, and a thread begins with the range it
// owns. Where there are many tasks, the thread packed most of what its range reads of the larger operand. So these
// lines are in its caches, which matters where threads share no cache. A thread that becomes free helps other ranges.
// Which thread computes a tile does not change its bits.
constexpr int owners_max = 64;
struct alignas(64) Taken {
  int64_t count;
};
int owners_of(int shares) { return shares < owners_max ? shares : owners_max; }

// Calls do_task(t) for tasks of [0, tasks) that no thread has taken yet.
template <class Task> void take_tasks(int64_t tasks, int share, int shares, Taken* taken, const Task& do_task) {
  const int owners = owners_of(shares), own = static_cast<int>(int64_t{share} * owners / shares);
  for (int n = 0; n < owners; ++n) {
    const int owner = (own + n) % owners;
    const int64_t first = tasks * owner / owners, end = tasks * (owner + 1) / owners;
    int64_t* count = &taken[owner].count;
    while (first + __atomic_load_n(count, __ATOMIC_RELAXED) < end) {
      const int64_t t = first + __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
      if (t < end) do_task(t);
    }
  }
}

// A task goes through all segments of the chunk, so that their sums stay in the first-level cache.
template <class T, class C> void multiply_block(const GemmArgs& g, const Block& b, const Chunk& chunk, const float* pa,
                                                int64_t a_step, const float* pb, int64_t b_step, int share, int shares,
                                                Taken* taken) {
  // Panels of one task. More panels need fewer reads from distant memory, but there must be enough tasks for all
  // threads.
  constexpr int64_t group_n = 4;
  const int64_t pm = (b.mb + mr - 1) / mr, pn = (b.nb + nr - 1) / nr;
  const int64_t group_m = pm * pn >= 12 * group_n * 16 * shares ? 12 : 6;
  const int64_t tm = (pm + group_m - 1) / group_m, tn = (pn + group_n - 1) / group_n;
  const bool by_rows = b.mb >= b.nb;
  take_tasks(tm * tn, share, shares, taken, [&](int64_t t) {
    const int64_t qi0 = (by_rows ? t / tn : t % tm) * group_m, qj0 = (by_rows ? t % tn : t / tm) * group_n;
    for (int64_t qj = qj0; qj < qj0 + group_n && qj < pn; ++qj)
      for (int c = 0; c < chunk.count; ++c)
        for (int64_t qi = qi0; qi < qi0 + group_m && qi < pm; ++qi) {
          const Segment& s = chunk.segment[c];
          const int64_t i = qi * mr, j = qj * nr, words = words_of<T>(s.kb);
          multiply_tile<T, C>(g, b, s, pa + s.at * a_step + i * words, pb + s.at * b_step + j * words, i,
                              b.mb - i < mr ? b.mb - i : mr, j, b.nb - j < nr ? b.nb - j : nr);
        }
  });
}

template <class T, class C> void product(const GemmArgs& g) {
  const auto mb_max = plan::gemm_block_m, nb_max = plan::gemm_block_n;
  const int64_t mb0 = base::round_up(g.m, 84) < mb_max ? base::round_up(g.m, 84) : mb_max;
  const int64_t nb0 = base::round_up(g.n, 32) < nb_max ? base::round_up(g.n, 32) : nb_max;
  const int64_t kb0 = g.k < kb_max ? g.k : kb_max;
  char* scratch = static_cast<char*>(g.scratch);
  float* pa = reinterpret_cast<float*>(scratch);
  float* pb = reinterpret_cast<float*>(scratch + base::aligned(mb0 * kb0 * 4));
  // Blocks of partial sums, as many as plan::lane_gemm_scratch_bytes counts. An f32 result is its own slot 0.
  const int64_t apart = base::aligned(mb0 * nb0 * 4) / 4;
  float* wide = reinterpret_cast<float*>(scratch + base::aligned(mb0 * kb0 * 4) + base::aligned(nb0 * kb0 * 4));
  Taken taken[2][owners_max] = {};  // of this chunk and the previous one, alternately
#pragma omp parallel num_threads(g.threads)
  {
    int turn = 0;
    const int share = omp_get_thread_num(), shares = omp_get_num_threads();
    TeamClock clock(g.team, share);
    [[maybe_unused]] const TilesOfThread set_up;
    for (int64_t j0 = 0; j0 < g.n; j0 += nb_max)
      for (int64_t i0 = 0; i0 < g.m; i0 += mb_max) {
        const Block b{.i0 = i0,
                      .mb = g.m - i0 < mb_max ? g.m - i0 : mb_max,
                      .j0 = j0,
                      .nb = g.n - j0 < nb_max ? g.n - j0 : nb_max,
                      .wide = wide,
                      .rows = mb0,
                      .apart = apart};
        LaneWalk walk(g, kb_max);
        Chunk chunk;
        while (next_chunk(walk, kb0, chunk)) {
          for (int c = 0; c < chunk.count; ++c) {
            const Segment& s = chunk.segment[c];
            pack_block<false, T>(b_of(g, s.part), !g.trans_b, b.j0, b.nb, s.k0, s.kb, pb + s.at * nb0, share, shares);
            pack_block<true, T>(a_of(g, s.part), g.trans_a, b.i0, b.mb, s.k0, s.kb, pa + s.at * mb0, share, shares);
          }
          clock.packed();
#pragma omp barrier
          clock.start();
          if (share < owners_of(shares)) __atomic_store_n(&taken[1 - turn][share].count, 0, __ATOMIC_RELAXED);
          multiply_block<T, C>(g, b, chunk, pa, mb0, pb, nb0, share, shares, taken[turn]);
          clock.computed();
          turn = 1 - turn;
#pragma omp barrier
          clock.start();
        }
      }
  }
}

#if !defined(TRAINYARD_BF16_PAIRS)
// Has no blocks inside a slice: a lane's slice of a part is one sum.
void product_f64(const GemmArgs& g) {
#pragma omp parallel for num_threads(g.threads) schedule(static)
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      double& c = g.c.row<double>(i)[j];
      double slot[64];
      slot[0] = c;
      LaneWalk walk(g, g.k);
      Segment s;
      while (!walk.done()) {
        walk.take(s, 0);
        const ConstMat &a = a_of(g, s.part), &b = b_of(g, s.part);
        double sum = 0;
        for (int64_t p = s.k0; p < s.k0 + s.kb; ++p)
          sum += (g.trans_a ? a.row<double>(p)[i] : a.row<double>(i)[p]) *
                 (g.trans_b ? b.row<double>(j)[p] : b.row<double>(p)[j]);
        for (int q = 0; q < s.sources; ++q) sum = slot[s.source[q]] + sum;
        slot[s.to] = sum;
      }
      c = slot[0] + (g.bias.empty() ? 0.0 : g.bias.ptr<double>()[j]);
      if (!g.gelu.empty())
        g.gelu.row<double>(i)[j] = g.gelu_form == Activation::gelu_tanh ? gelu_of(c) : gelu_erf_of(c);
    }
}

#endif

}  // namespace

void gemm_cpu(const GemmArgs& g) {
#if defined(TRAINYARD_BF16_PAIRS)
  if (g.a.type != Type::bf16) return TRAINYARD_BASE_NAMESPACE::gemm_cpu(g);
#else
  if (g.a.type == Type::f64) return product_f64(g);
#endif
  with_type_of_product(g.a.type, [&]<class T>(T*) {
    if (g.c.type == Type::f32) product<T, float>(g);
    else product<T, T>(g);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
