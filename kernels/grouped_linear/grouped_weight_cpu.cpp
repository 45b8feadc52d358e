// Weight gradients of groups. The sum goes over a group's rows, so blocks of several groups are packed together. A task
// computes its part of each of these groups' gradients.
#include "kernels/grouped_linear/grouped_team_cpu.h"

#include <omp.h>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// A block of rows of a group, which is `steps` steps of its sum; an empty group has one block without steps.
struct RowBlock {
  int64_t group = 0, first = 0, steps = 0;  // first: counted in all rows
  int64_t before = 0;                       // steps of the group's earlier blocks
  int64_t at = 0;                           // the block's place in the packed chunk, in steps
};

// The blocks that are packed together: as many as fit. All threads walk alike.
class RowBlocks {
 public:
  RowBlocks(const GroupRanges& r, int64_t depth) : r_(r), depth_(depth) { skip(); }
  bool over() const { return group_ == r_.groups; }
  bool next(RowBlock& b) {
    if (over()) return false;
    const int64_t rows = r_.ranges[2 * group_ + 1], left = rows - before_;
    const int64_t steps = left < plan::gemm_block_k ? left : plan::gemm_block_k;
    if (at_ + steps > depth_) return false;
    b = {group_, r_.ranges[2 * group_] + before_, steps, before_, at_};
    at_ += steps, before_ += steps;
    if (before_ == rows) ++group_, before_ = 0, skip();
    return true;
  }
  void empty() { at_ = 0; }

 private:
  void skip() {
    while (group_ < r_.groups && r_.left_alone(group_)) ++group_;
  }
  const GroupRanges& r_;
  int64_t depth_, at_ = 0;
  int64_t group_ = 0, before_ = 0;
};

// Rows [i0, i0 + mb) of the gradients, for the groups of a chunk.
struct WeightStage {
  const GroupedWeightArgs& g;
  RowBlocks begin;
  int64_t i0, mb;
  float* pa;  // [steps, mb0]
  int64_t mb0;
};

template <class T> void pack_gradients(const WeightStage& s, int share, int shares) {
  const int64_t panels = panels_of(s.mb), first = panels * share / shares, end = panels * (share + 1) / shares;
  const int64_t i = first * mr;
  auto blocks = s.begin;
  for (RowBlock b; blocks.next(b);)
    pack_left_along(s.g.dy.row<T>(b.first) + s.i0 + i, s.g.dy.pitch, s.mb - i, end - first, b.steps,
                    s.pa + b.at * s.mb0 + i * words_of<T>(b.steps));
}

template <class T>
void multiply_gradients(const WeightStage& s, float* pb, int shares, Tasks& tasks, TeamClock& clock) {
  const int64_t n = s.g.x.cols, panels = panels_of(s.mb), strips = (n + strip - 1) / strip;
  const int64_t tall = panels_of_a_task(panels, strips, shares), ranges = (panels + tall - 1) / tall;
  for (int64_t task = tasks.take(); task < ranges * strips; task = tasks.take()) {
    const int64_t range = task / strips, j0 = task % strips * strip, columns = n - j0 < strip ? n - j0 : strip;
    auto blocks = s.begin;
    for (RowBlock b; blocks.next(b);) {
      pack_strip<T>(s.g.x, 0, j0, columns, b.first, b.steps, pb);
      clock.packed();
      GemmArgs product;
      product.c = view_of<float>(s.g.dweight, b.group);
      const Block block{.i0 = s.i0, .mb = s.mb, .j0 = 0, .nb = n, .wide = nullptr, .rows = 0, .apart = 0};
      Segment segment;
      segment.kb = b.steps, segment.sources = b.before > 0;
      walk_tiles(
          panels * range / ranges, panels * (range + 1) / ranges, columns, [&](int64_t from, int64_t to, int64_t j) {
            for (int64_t q = from; q < to; ++q) {
              const int64_t i = q * mr, words = words_of<T>(b.steps);
              multiply_tile<T, float>(product, block, segment, s.pa + b.at * s.mb0 + i * words, pb + j * words, i,
                                      s.mb - i < mr ? s.mb - i : mr, j0 + j, columns - j < nr ? columns - j : nr);
            }
          });
      clock.computed();
    }
  }
}

// The order of kernels/linear/column_sum: blocks of rows from the group's first row on, then the blocks in ascending
// order.
template <class T, class G> void sum_rows(const GroupedWeightArgs& g) {
  constexpr int64_t width = 256;
  static_assert(width <= f16_strip);
  const int64_t strips = (g.dy.cols + width - 1) / width;
#pragma omp for schedule(dynamic) nowait
  for (int64_t task = 0; task < g.rows.groups * strips; ++task) {
    const int64_t group = task / strips, j0 = task % strips * width;
    if (g.rows.left_alone(group)) continue;
    const int64_t n = g.dy.cols - j0 < width ? g.dy.cols - j0 : width;
    const int64_t first = g.rows.ranges[2 * group], end = first + g.rows.ranges[2 * group + 1];
    G total[width] = {};
    for (int64_t row = first; row < end;) {
      const bool begins = row == first;
      const int64_t stop = row + plan::column_sum_rows < end ? row + plan::column_sum_rows : end;
      G sum[width] = {};
      for (; row < stop; ++row) {
        const StripIn<T> in(g.dy.row<T>(row) + j0, n);
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) sum[j] += in[j];
      }
      for (int64_t j = 0; j < n; ++j) total[j] = begins ? sum[j] : total[j] + sum[j];
    }
    G* out = g.dbias.data<G>(group) + j0;
    for (int64_t j = 0; j < n; ++j) out[j] = total[j];
  }
}

template <class T> void gradients(const GroupedWeightArgs& g) {
  constexpr auto mb_max = plan::gemm_block_m;
  const int64_t m = g.dy.cols, mb0 = base::round_up(m, 84) < mb_max ? base::round_up(m, 84) : mb_max;
  const int64_t kb0 = g.dy.rows < plan::gemm_block_k ? g.dy.rows : plan::gemm_block_k;
  char* scratch = static_cast<char*>(g.scratch);
  float* pa = reinterpret_cast<float*>(scratch);
  char* strips = scratch + base::aligned(mb0 * kb0 * 4);
  const int64_t of_a_thread = plan::grouped_strip_bytes(g.x.cols, kb0);
  int64_t next[2] = {0, 0};
#pragma omp parallel num_threads(g.threads)
  {
    const int share = omp_get_thread_num(), shares = omp_get_num_threads();
    float* pb = reinterpret_cast<float*>(strips + share * of_a_thread);
    [[maybe_unused]] const TilesOfThread set_up;
    Tasks tasks(next);
    TeamClock clock(g.team, share);
    for (int64_t i0 = 0; i0 < m; i0 += mb_max)
      for (RowBlocks blocks(g.rows, kb0); !blocks.over(); blocks.empty()) {
        const WeightStage s{
            .g = g, .begin = blocks, .i0 = i0, .mb = m - i0 < mb_max ? m - i0 : mb_max, .pa = pa, .mb0 = mb0};
        for (RowBlock b; blocks.next(b);) {}
        pack_gradients<T>(s, share, shares);
        clock.packed();
#pragma omp barrier
        clock.start();
        if (share == 0) tasks.prepare_next();
        multiply_gradients<T>(s, pb, shares, tasks, clock);
        tasks.turn();
#pragma omp barrier
        clock.start();
      }
    if (!g.dbias.empty()) {
      sum_rows<T, float>(g);
      clock.computed();
    }
  }
}

#if !defined(TRAINYARD_BF16_PAIRS)
void gradients_f64(const GroupedWeightArgs& g) {
  for (int64_t e = 0; e < g.rows.groups; ++e) {
    if (g.rows.left_alone(e)) continue;
    const int64_t first = g.rows.ranges[2 * e], rows = g.rows.ranges[2 * e + 1];
    GemmArgs product;
    product.a = rows_of<double>(g.dy, first, rows), product.b = rows_of<double>(g.x, first, rows);
    product.c = view_of<double>(g.dweight, e);
    product.trans_a = 1, product.m = g.dy.cols, product.n = g.x.cols, product.k = rows;
    product.threads = g.threads;
    if (rows > 0) gemm_cpu(product);
    else
      for (int64_t i = 0; i < product.m; ++i)
        for (int64_t j = 0; j < product.n; ++j) product.c.row<double>(i)[j] = 0;
  }
  if (g.dbias.empty()) return;
#pragma omp parallel num_threads(g.threads)
  sum_rows<double, double>(g);
}

#endif

}  // namespace

void grouped_weight_cpu(const GroupedWeightArgs& g) {
#if defined(TRAINYARD_BF16_PAIRS)
  if (g.x.type != Type::bf16) return TRAINYARD_BASE_NAMESPACE::grouped_weight_cpu(g);
#else
  if (g.x.type == Type::f64) return gradients_f64(g);
#endif
  with_type_of_product(g.x.type, [&]<class T>(T*) { gradients<T>(g); });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
