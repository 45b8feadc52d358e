// Products of groups, by one team of threads for all groups. The team packs rows of several groups together. A task is
// some rows of one group and a strip of columns; the thread packs its own strip of the weight.
#include "kernels/grouped_linear/grouped_linear_args.h"
#include "kernels/grouped_linear/grouped_team_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

#include <omp.h>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Some rows of a group; they begin in a new panel.
struct Piece {
  int64_t group = 0, at = 0, rows = 0;  // at: the first row, counted from the group's first row
  int64_t panel = 0;                    // the first panel
  int64_t first(const GroupRanges& r) const { return r.ranges[2 * group] + at; }
};

// The pieces that are packed together, one after the other. Takes as many whole groups as there is room for; a group
// larger than the room goes in several pieces. All threads walk alike.
class Pieces {
 public:
  Pieces(const GroupRanges& r, int64_t room) : r_(r), room_(room) { skip(); }
  bool over() const { return group_ == r_.groups; }  // no group is left
  bool next(Piece& p) {
    if (over()) return false;
    const int64_t left = r_.ranges[2 * group_ + 1] - at_, free = room_ - used_;
    if (free == 0 || (used_ > 0 && panels_of(left) > free)) return false;
    p.group = group_, p.at = at_, p.rows = left < free * mr ? left : free * mr, p.panel = used_;
    used_ += panels_of(p.rows);
    at_ += p.rows;
    skip();
    return true;
  }
  int64_t panels() const { return used_; }
  void empty() { used_ = 0; }

 private:
  void skip() {
    while (group_ < r_.groups && at_ >= r_.ranges[2 * group_ + 1]) ++group_, at_ = 0;
  }
  const GroupRanges& r_;
  int64_t room_, used_ = 0;  // panels
  int64_t group_ = 0, at_ = 0;
};

// The product of a piece, in the form of kernels/gemm.
template <class T, class C> GemmArgs product_of(const GroupedLinearArgs& g, const Piece& p) {
  GemmArgs out;
  const int64_t first = p.first(g.rows);
  out.a = rows_of<T>(g.a[0], first, p.rows), out.b = view_of<T>(g.b[0], p.group);
  if (g.parts > 1) out.more[0] = {rows_of<T>(g.a[1], first, p.rows), view_of<T>(g.b[1], p.group)};
  out.c = rows_of<C>(g.c, first, p.rows), out.bias = view_of<C>(g.bias, p.group);
  out.parts = g.parts, out.lanes = g.lanes, out.trans_b = g.trans_b;
  out.m = p.rows, out.n = g.c.cols, out.k = g.k;
  return out;
}

// One stage of the team's work: pieces, some columns of the result, and a chunk of the sum.
struct Stage {
  const GroupedLinearArgs& g;
  Pieces begin;  // the walk at the stage's first piece
  int64_t panels, j0, nb;
  float* pa;  // [steps, mb0], packed as in kernels/gemm
  int64_t mb0;
  float* wide;
  int64_t apart;
  Chunk chunk;
};

template <class T> void pack_rows(const Stage& s, int share, int shares) {
  const int64_t end = s.panels * (share + 1) / shares;
  int64_t q = s.panels * share / shares;
  auto pieces = s.begin;
  for (Piece p; q < end && pieces.next(p);)
    for (; q < end && q < pieces.panels(); ++q) {
      const int64_t i = (q - p.panel) * mr, have = p.rows - i < mr ? p.rows - i : mr;
      for (int c = 0; c < s.chunk.count; ++c) {
        const Segment& t = s.chunk.segment[c];
        const ConstMat& a = s.g.a[t.part];
        pack_left_across(a.row<T>(p.first(s.g.rows) + i) + t.k0, a.pitch, have, t.kb,
                         s.pa + t.at * s.mb0 + q * mr * words_of<T>(t.kb));
      }
    }
}

template <class T, class C> void multiply_task(const Stage& s, const GemmArgs& g, const Piece& p, int64_t q0,
                                               int64_t q1, int64_t j0, float* pb, TeamClock& clock) {
  const int64_t columns = s.nb - j0 < strip ? s.nb - j0 : strip, width = base::round_up(columns, nr);
  for (int c = 0; c < s.chunk.count; ++c) {
    const Segment& t = s.chunk.segment[c];
    pack_strip<T>(b_of(g, t.part), g.trans_b, s.j0 + j0, columns, t.k0, t.kb, pb + t.at * width);
  }
  clock.packed();
  const Block block{.i0 = 0,
                    .mb = p.rows,
                    .j0 = s.j0,
                    .nb = s.nb,
                    .wide = s.wide + p.panel * mr * nr,
                    .rows = s.mb0,
                    .apart = s.apart};
  walk_tiles(q0, q1, columns, [&](int64_t from, int64_t to, int64_t j) {
    for (int c = 0; c < s.chunk.count; ++c)
      for (int64_t q = from; q < to; ++q) {
        const Segment& t = s.chunk.segment[c];
        const int64_t i = q * mr, words = words_of<T>(t.kb);
        multiply_tile<T, C>(g, block, t, s.pa + t.at * s.mb0 + (p.panel + q) * mr * words,
                            pb + t.at * width + j * words, i, p.rows - i < mr ? p.rows - i : mr, j0 + j,
                            columns - j < nr ? columns - j : nr);
      }
  });
  clock.computed();
}

template <class T, class C>
void multiply_pieces(const Stage& s, float* pb, int shares, Tasks& tasks, TeamClock& clock) {
  const int64_t strips = (s.nb + strip - 1) / strip, tall = panels_of_a_task(s.panels, strips, shares);
  int64_t task = tasks.take(), before = 0;
  auto pieces = s.begin;
  for (Piece p; pieces.next(p);) {
    const int64_t panels = panels_of(p.rows), ranges = (panels + tall - 1) / tall;
    if (task < before + ranges * strips) {
      const auto g = product_of<T, C>(s.g, p);
      for (; task < before + ranges * strips; task = tasks.take()) {
        const int64_t range = (task - before) / strips, j0 = (task - before) % strips * strip;
        multiply_task<T, C>(s, g, p, panels * range / ranges, panels * (range + 1) / ranges, j0, pb, clock);
      }
    }
    before += ranges * strips;
  }
}

template <class T, class C> void products(const GroupedLinearArgs& g) {
  constexpr auto nb_max = plan::gemm_block_n;
  const int64_t mb0 = plan::grouped_block_rows(g.c.rows, g.rows.groups);
  const int64_t nb0 = base::round_up(g.c.cols, 32) < nb_max ? base::round_up(g.c.cols, 32) : nb_max;
  const int64_t kb0 = g.k < plan::gemm_block_k ? g.k : plan::gemm_block_k;
  char* scratch = static_cast<char*>(g.scratch);
  float* pa = reinterpret_cast<float*>(scratch);
  scratch += base::aligned(mb0 * kb0 * 4);
  const int64_t of_a_thread = plan::grouped_strip_bytes(g.c.cols, g.k);
  char* strips = scratch;
  float* wide = reinterpret_cast<float*>(scratch + g.threads * of_a_thread);
  int64_t next[2] = {0, 0};
#pragma omp parallel num_threads(g.threads)
  {
    const int share = omp_get_thread_num(), shares = omp_get_num_threads();
    float* pb = reinterpret_cast<float*>(strips + share * of_a_thread);
    [[maybe_unused]] const TilesOfThread set_up;
    Tasks tasks(next);
    TeamClock clock(g.team, share);
    GemmArgs order;  // only what the walk over the sum needs
    order.a = g.a[0], order.more[0].a = g.a[1], order.parts = g.parts, order.lanes = g.lanes;
    for (int64_t j0 = 0; j0 < g.c.cols; j0 += nb_max)
      for (Pieces pieces(g.rows, mb0 / mr); !pieces.over(); pieces.empty()) {
        Stage s{.g = g,
                .begin = pieces,
                .panels = 0,
                .j0 = j0,
                .nb = g.c.cols - j0 < nb_max ? g.c.cols - j0 : nb_max,
                .pa = pa,
                .mb0 = mb0,
                .wide = wide,
                .apart = base::aligned(mb0 * nb0 * 4) / 4,
                .chunk = {}};
        for (Piece p; pieces.next(p);) s.panels = pieces.panels();
        LaneWalk walk(order, plan::gemm_block_k);
        while (next_chunk(walk, kb0, s.chunk)) {
          pack_rows<T>(s, share, shares);
          clock.packed();
#pragma omp barrier
          clock.start();
          if (share == 0) tasks.prepare_next();
          multiply_pieces<T, C>(s, pb, shares, tasks, clock);
          tasks.turn();
#pragma omp barrier
          clock.start();
        }
      }
  }
}

#if !defined(TRAINYARD_BF16_PAIRS)
void products_f64(const GroupedLinearArgs& g) {
  for (int64_t e = 0; e < g.rows.groups; ++e) {
    const Piece all{.group = e, .rows = g.rows.ranges[2 * e + 1]};
    if (all.rows <= 0) continue;
    auto product = product_of<double, double>(g, all);
    product.threads = g.threads;
    gemm_cpu(product);
  }
}

#endif

}  // namespace

void grouped_linear_cpu(const GroupedLinearArgs& g) {
#if defined(TRAINYARD_BF16_PAIRS)
  if (g.a[0].type != Type::bf16) return TRAINYARD_BASE_NAMESPACE::grouped_linear_cpu(g);
#else
  if (g.a[0].type == Type::f64) return products_f64(g);
#endif
  with_type_of_product(g.a[0].type, [&]<class T>(T*) {
    if (g.c.type == Type::f32) products<T, float>(g);
    else products<T, T>(g);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
