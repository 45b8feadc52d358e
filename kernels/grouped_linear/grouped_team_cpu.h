// Shared by the CPU products of groups: strips of columns, tasks, and the order of tiles. Included only by *_cpu.cpp,
// once per instruction set.
#pragma once

#include "kernels/gemm/lane_tile_cpu.h"
#include "kernels/grouped_linear/grouped_linear_args.h"
#include "kernels/pack_cpu.h"
#include "kernels/team_clock_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int64_t strip = plan::grouped_strip;  // columns of a task
static_assert(strip % nr == 0);

inline int64_t panels_of(int64_t rows) { return (rows + mr - 1) / mr; }

template <class T, class Memory> MatOf<Memory> rows_of(const MatOf<Memory>& m, int64_t first, int64_t count) {
  auto out = m;
  out.data = m.template row<T>(first), out.rows = count;
  return out;
}
template <class T, class Memory> MatOf<Memory> view_of(const GroupedMatOf<Memory>& m, int64_t group) {
  auto out = m.first;
  if (!m.empty()) out.data = m.template data<T>(group);
  return out;
}

// Packs steps [k0, k0 + kb) of columns [j, j + columns) of op(b), panel after panel.
template <class T>
inline void pack_strip(const ConstMat& b, int trans_b, int64_t j, int64_t columns, int64_t k0, int64_t kb, float* out) {
  if (!trans_b) return pack_along<nr>(b.row<T>(k0) + j, b.pitch, columns, (columns + nr - 1) / nr, kb, out);
  for (int64_t c = 0; c < columns; c += nr)
    pack_across<nr>(b.row<T>(j + c) + k0, b.pitch, columns - c, kb, out + c * words_of<T>(kb));
}

// Threads take tasks as they become free. Two counters are used alternately.
class Tasks {
 public:
  explicit Tasks(int64_t* next) : next_(next) {}
  int64_t take() { return __atomic_fetch_add(&next_[turn_], 1, __ATOMIC_RELAXED); }
  // Called by one thread while the team takes tasks.
  void prepare_next() { __atomic_store_n(&next_[1 - turn_], 0, __ATOMIC_RELAXED); }
  void turn() { turn_ = 1 - turn_; }

 private:
  int64_t* next_;
  int turn_ = 0;
};

// Panels of rows in a task, chosen so that each thread has several tasks.
inline int64_t panels_of_a_task(int64_t panels, int64_t strips, int shares) {
  constexpr int64_t least = 6, tasks_of_a_thread = 4;
  const int64_t even = shares == 1 ? panels : panels * strips / (tasks_of_a_thread * shares);
  return even < least ? least : even;
}

// Panels [q0, q1) of rows times a strip. Six panels of rows stay in the second-level cache, and one panel of columns
// stays in the first-level cache.
template <class Tile> void walk_tiles(int64_t q0, int64_t q1, int64_t columns, const Tile& tile) {
  constexpr int64_t together = 6;
  for (int64_t q = q0; q < q1; q += together)
    for (int64_t j = 0; j < columns; j += nr) tile(q, q + together < q1 ? q + together : q1, j);
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
