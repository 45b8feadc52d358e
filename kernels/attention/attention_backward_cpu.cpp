// Attention's backward pass on the CPU with sums in f32, tile by tile of keys. Threads that work on tiles of one head
// add to the same query gradients. Each thread waits for its position in the order of tiles, so the order of every sum
// is fixed.
#include "kernels/attention/attention_tile_cpu.h"
#include "kernels/team_clock_cpu.h"

#include <sched.h>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// What the threads share of one key-value head, for each of its query heads.
struct SharedHead {
  float *dq, *delta;
  std::int32_t *first, *end, *turn;  // for each tile of queries: its tiles of keys [first, end), the next to add
  // The gradient of the bias of positions in this sequence, and the tile of keys that adds next; null: not wanted.
  float* d_bias;
  std::int32_t* bias_turn;
};
SharedHead shared_head(const AttentionBackwardArgs& a, int64_t slot, int64_t g) {
  const int64_t rows = plan::attention_rows(a.sequence), group = a.heads / a.kv_heads;
  Bump bump{a.shared + slot * a.shared_part + g * (a.shared_part / group)};
  SharedHead s{};
  s.dq = bump.take(rows * plan::attention_width(a.head_dim)), s.delta = bump.take(rows);
  auto* const places = bump.take<std::int32_t>(3 * (rows / tile));
  s.first = places, s.end = places + rows / tile, s.turn = places + 2 * (rows / tile);
  if (!a.d_bias.empty()) s.d_bias = bump.take(a.d_bias.cols), s.bias_turn = bump.take<std::int32_t>(1);
  return s;
}

struct BackwardBuffers {
  float *keys, *keys_turned, *values_turned, *queries, *douts, *dk, *dv, *p, *ds;
  // Sums over the gradients of scores of a tile of keys, for each distance of key k from query i: at k - i + (rows -
  // 1), with k from the tile's first key, and whole tiles of queries as rows. Null: not wanted.
  float* by_distance;
};
BackwardBuffers backward_buffers(const AttentionBackwardArgs& a, char* scratch) {
  const int64_t dw = plan::attention_width(a.head_dim);
  Bump bump{scratch};
  BackwardBuffers m{};
  for (float** rows : {&m.keys, &m.keys_turned, &m.values_turned, &m.queries, &m.douts, &m.dk, &m.dv})
    *rows = bump.take(tile * dw);
  m.p = bump.take(tile * tile), m.ds = bump.take(tile * tile);
  if (!a.d_bias.empty()) m.by_distance = bump.take(plan::attention_rows(a.sequence) + tile);
  return m;
}

struct HeadPlace {
  int64_t b, kv, slot, g;
  int64_t head(const AttentionArgs& a) const { return kv * (a.heads / a.kv_heads) + g; }
};

// The tile of keys that is added to the tile of queries after tile `j`, or `end` if none is left.
std::int32_t next_turn(const AttentionArgs& a, int64_t h, int64_t i, int64_t j, int64_t end) {
  if (a.visibility.by_queries.begin == nullptr) return static_cast<std::int32_t>(least(j + 1, end));
  const auto e = entries_of(a, a.visibility.by_queries, h, i);
  int64_t low = e.begin, high = e.end;  // the first entry above j
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (a.visibility.by_queries.other[middle] <= j) low = middle + 1;
    else high = middle;
  }
  return low < e.end ? static_cast<std::int32_t>(least(a.visibility.by_queries.other[low], end))
                     : static_cast<std::int32_t>(end);
}

template <class T>
void store_queries(const AttentionBackwardArgs& a, const HeadPlace& at, const SharedHead& s, int64_t i) {
  const int64_t d = a.head_dim, dw = plan::attention_width(d), i0 = i * tile;
  const float scale = static_cast<float>(a.scale);
  for (int64_t r = 0; r < least(tile, a.sequence - i0); ++r) {
    T* out = a.dq.row<T>(at.b * a.sequence + i0 + r) + at.head(a) * d;
    fetch<T, true>(a.dq, at.b * a.sequence + i0 + r + ahead, at.head(a) * d, d);
    const float* from = s.dq + (i0 + r) * dw;
    put_row(d, out, from, [&](float v) { return v * scale; });
  }
}

// Runs before all tiles of keys: computes delta = out . dout, and the first and last tile of keys for each tile of
// queries.
template <class T> void prepare_tile(const AttentionBackwardArgs& a, const HeadPlace& at, int64_t i) {
  const int64_t d = a.head_dim, dw = plan::attention_width(d), i0 = i * tile, h = at.head(a);
  const auto s = shared_head(a, at.slot, at.g);
  const auto limits = limits_of(a, at.b, i0);
  set_zero(s.dq + i0 * dw, tile * dw);
  for (int64_t r = 0; r < tile; ++r) {
    const T* out = a.out.row<T>(at.b * a.sequence + i0 + r) + h * d;
    const T* dout = a.dout.row<T>(at.b * a.sequence + i0 + r) + h * d;
    fetch<T>(a.out, at.b * a.sequence + i0 + r + ahead, h * d, d);
    fetch<T>(a.dout, at.b * a.sequence + i0 + r + ahead, h * d, d);
    LaneSum<float> product;
    if (r < limits.rows)
      over_strips<T>(d, [&](int64_t c0, int64_t m) {
        const StripIn<T> x(out + c0, m), y(dout + c0, m);
        product.add(m, [&](int64_t c) { return x[c] * y[c]; });
      });
    s.delta[i0 + r] = product.total();
  }
  s.first[i] = static_cast<std::int32_t>(limits.first()), s.end[i] = static_cast<std::int32_t>(limits.end());
  s.turn[i] = next_turn(a, h, i, s.first[i] - 1, s.end[i]);
  if (i == 0 && s.d_bias != nullptr) set_zero(s.d_bias, a.d_bias.cols), *s.bias_turn = 0;
  if (s.turn[i] >= s.end[i]) store_queries<T>(a, at, s, i);  // these queries see nothing
}

// Waits until earlier tiles of keys have been added. The thread that adds them is already running, because tiles of
// keys are assigned in ascending order.
void wait_for_turn(const std::int32_t* turn, int64_t j) {
  for (int spins = 0; __atomic_load_n(turn, __ATOMIC_ACQUIRE) != j; ++spins)
    if (spins >= 256) sched_yield();
}

// What a tile has of the bias of positions. sums: BackwardBuffers::by_distance of its first query and key, or null.
struct BiasOfTile {
  TileBias values;
  float* sums = nullptr;
};

// For queries [q0, q1) and keys [k0, k1) of a tile. p: products of queries and keys become probabilities, with dropout
// applied. ds: products of output gradients and values become gradients of scores before their cap, still without the
// scale of scores. capped: whether there is a cap c, whose slope is 1 - (score / c)^2. biased: whether there is a bias
// of positions.
template <class T, bool capped, bool biased>
void score_gradients(const BackwardBuffers& m, const Drop& drop, const Limits& limits, bool sees_all, const Scores& how,
                     const BiasOfTile& bias, const float* lse, const float* delta, int64_t i0, int64_t j0, int64_t q0,
                     int64_t q1, int64_t k0, int64_t k1) {
  IntVec steps;
  for (int n = 0; n < lanes; ++n) steps[n] = n;
  for (int64_t q = q0; q < q1; ++q) {
    float* p = m.p + q * tile;
    float* ds = m.ds + q * tile;
    const Vec top = broadcast(lse[q]), mean = broadcast(delta[q]), factor = broadcast(how.factor);
    Vec slope = zero();  // of the cap, for the keys of the last call
    const auto probabilities = [&](int64_t k) {
      const Vec product = load(p + k);
      Vec score = paired<T> ? product * factor : product;
      if constexpr (capped) {
        const Vec part = tanh_of(product * broadcast(how.inner));
        score = part * broadcast(how.cap), slope = broadcast(1.0f) - part * part;
      } else if constexpr (biased) {
        score = product * broadcast(how.inner);
      }
      if constexpr (biased) score = plus(score, load(bias.values.at(k - q)));
      if (sees_all) return exp_of<Range::least>(score - top);
      return exp_of<Range::least>(
          within(score, same(static_cast<std::int32_t>(j0 + k)) + steps, same(limits.lo[q]), same(limits.hi[q])) - top);
    };
    const auto add_to_bias = [&](int64_t k, Vec gradient) {
      if (!biased || bias.sums == nullptr) return;
      float* sum = bias.sums + k - q;
      put(sum, plus(load(sum), gradient));
    };
    if (drop.threshold == 0) {
      for (int64_t k = k0; k < k1; k += lanes) {
        const Vec x = probabilities(k);
        put(p + k, x);
        const Vec gradient = x * (load(ds + k) - mean);
        add_to_bias(k, gradient);
        put(ds + k, capped ? gradient * slope : gradient);
      }
    } else {
      alignas(64) float mask[tile];
      for (int64_t k = k0; k < k1; k += 4) {
        const auto words = drop_words(drop, i0 + q, j0 + k);
        for (int w = 0; w < 4; ++w) mask[k + w] = words.w[w] >= drop.threshold ? drop.scale : 0.0f;
      }
      for (int64_t k = k0; k < k1; k += lanes) {
        const Vec x = probabilities(k), kept = load(mask + k);
        const Vec gradient = x * (load(ds + k) * kept - mean);
        add_to_bias(k, gradient);
        put(ds + k, capped ? gradient * slope : gradient);
        put(p + k, x * kept);
      }
    }
  }
}

// One tile of queries against the tile of keys in the buffers.
template <class T> void backward_step(const AttentionBackwardArgs& a, const HeadPlace& at, const SharedHead& s,
                                      const BackwardBuffers& m, const Drop& drop, int64_t i, int64_t j, unsigned parts,
                                      TeamClock& clock) {
  const int64_t d = a.head_dim, dw = plan::attention_width(d), i0 = i * tile, j0 = j * tile, h = at.head(a);
  const auto limits = limits_of(a, at.b, i0);
  const bool sees_all = limits.sees_all(j0);
  // The rows that products sum over; with paired operands they are also packed as words of two rows.
  const float scale = static_cast<float>(a.scale);
  const int64_t row0 = at.b * a.sequence + i0, pitch = dw / steps_of_word<T>;
  float *queries_over = m.queries, *douts_over = m.douts;
  if constexpr (paired<T>) {
    queries_over += tile * pitch, douts_over += tile * pitch;
    pack_row_words(a.q, row0, h * d, limits.rows, d, dw, m.queries);
    pack_row_words(a.dout, row0, h * d, limits.rows, d, dw, m.douts);
    pack_column_words(a.q, row0, h * d, limits.rows, d, dw, queries_over);
    pack_column_words(a.dout, row0, h * d, limits.rows, d, dw, douts_over);
  } else {
    pack_rows<T>(a.q, row0, h * d, limits.rows, d, dw, scale, m.queries);
    pack_rows<T>(a.dout, row0, h * d, limits.rows, d, dw, 1, m.douts);
  }
  clock.packed();
  alignas(64) float lse[tile];
  for (int q = 0; q < tile; ++q)
    lse[q] = q < limits.rows ? a.lse.row<float>(at.b * a.heads + h)[i0 + q] : __builtin_inff();
  const unsigned there = parts & limits.seen(j0);
  BiasOfTile bias;
  if (a.bias != nullptr) take_bias<false>(a, h, i0, j0, &bias.values);
  if (m.by_distance != nullptr) bias.sums = m.by_distance + plan::attention_rows(a.sequence) - 1 - i0;
  // Calls block(q0, q1, k0, k1) for what exists of the tile: the whole tile at once, or one block for each run of parts
  // in a row.
  const auto over_blocks = [&](const auto& block) {
    if (there == whole) return block(0, tile, 0, tile);
    for (int r = 0; r < parts_of_row; ++r)
      over_runs([&](int c) { return has_part(there, r, c); },
                [&](int from, int to) { block(r * part, (r + 1) * part, from * part, to * part); });
  };
  // The blocks for gradients of keys and values, which are sums over queries. If the list has the whole tile, a sum
  // takes all query parts that see a key part; otherwise it goes block by block.
  const auto over_sums = [&](const auto& block) {
    if (parts != whole || there == whole) return over_blocks(block);
    for (int c = 0; c < parts_of_row; ++c)
      over_runs([&](int r) { return has_part(there, r, c); },
                [&](int from, int to) { block(from * part, to * part, c * part, (c + 1) * part); });
  };
  over_blocks([&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    tile_product<T, false>(q1 - q0, k1 - k0, words_of<T>(d), m.queries + q0 * pitch, pitch, 1, m.keys_turned + k0, tile,
                           m.p + q0 * tile + k0, tile, false);
    tile_product<T, false>(q1 - q0, k1 - k0, words_of<T>(d), m.douts + q0 * pitch, pitch, 1, m.values_turned + k0, tile,
                           m.ds + q0 * tile + k0, tile, false);
    const bool caps = a.softcap != 0;
    const auto gradients = a.bias == nullptr
                               ? (caps ? score_gradients<T, true, false> : score_gradients<T, false, false>)
                           : caps ? score_gradients<T, true, true>
                                  : score_gradients<T, false, true>;
    gradients(m, drop, limits, sees_all, scores_of<T>(a), bias, lse, s.delta + i0, i0, j0, q0, q1, k0, k1);
  });
  const float* ds_rows = m.ds;
  int64_t ds_pitch = tile;
  [[maybe_unused]] alignas(64) float ds_words[paired<T> ? tile * tile / 2 : 1];
  if constexpr (paired<T>) {
    over_blocks([&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
      round_columns(m.ds, q0, q1, k0, k1, ds_words);
      round_rows(m.p, q0, q1, k0, k1);
      round_rows(m.ds, q0, q1, k0, k1);
    });
    ds_rows = ds_words, ds_pitch = tile / 2;
  }
  over_sums([&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const int64_t word0 = q0 / steps_of_word<T>, words = words_of<T>(q1 - q0);
    tile_product<T, true>(k1 - k0, dw, words, m.p + word0 * tile + k0, 1, tile, douts_over + word0 * dw, dw,
                          m.dv + k0 * dw, dw, true);
    tile_product<T, true>(k1 - k0, dw, words, m.ds + word0 * tile + k0, 1, tile, queries_over + word0 * dw, dw,
                          m.dk + k0 * dw, dw, true);
  });
  clock.computed();
  wait_for_turn(s.turn + i, j);
  clock.start();
  over_blocks([&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const int64_t word0 = k0 / steps_of_word<T>;
    tile_product<T, false>(q1 - q0, dw, words_of<T>(k1 - k0), ds_rows + q0 * ds_pitch + word0, ds_pitch, 1,
                           m.keys + word0 * dw, dw, s.dq + (i0 + q0) * dw, dw, true);
  });
  const auto next = next_turn(a, h, i, j, s.end[i]);
  __atomic_store_n(s.turn + i, next, __ATOMIC_RELEASE);
  if (next >= s.end[i]) store_queries<T>(a, at, s, i);
  clock.computed();
}

// Adds what the tile of keys j has for each distance to the sums of its sequence, after the tiles before it.
void add_by_distance(const AttentionBackwardArgs& a, const SharedHead& s, const BackwardBuffers& m, int64_t j,
                     TeamClock& clock) {
  const int64_t j0 = j * tile, rows = plan::attention_rows(a.sequence), past = rows - a.sequence;
  const int64_t first = most(0, past - j0), end = least(rows + tile - 1, a.d_bias.cols + past - j0);
  clock.computed();
  wait_for_turn(s.bias_turn, j);
  clock.start();
  float* to = s.d_bias + (first + j0 - past);
  const float* from = m.by_distance + first;
#pragma omp simd
  for (int64_t n = 0; n < end - first; ++n) to[n] += from[n];
  __atomic_store_n(s.bias_turn, static_cast<std::int32_t>(j + 1), __ATOMIC_RELEASE);
}

template <class T> void backward_tile(const AttentionBackwardArgs& a, HeadPlace at, const BackwardBuffers& m, int64_t j,
                                      TeamClock& clock) {
  const int64_t d = a.head_dim, dw = plan::attention_width(d), j0 = j * tile, have = least(tile, a.keys - j0),
                row0 = at.b * a.keys + j0;
  if constexpr (paired<T>) {
    pack_row_words(a.v, row0, at.kv * d, have, d, dw, m.keys);
    turn(m.keys, dw / 2, m.values_turned);
    pack_row_words(a.k, row0, at.kv * d, have, d, dw, m.keys);
    turn(m.keys, dw / 2, m.keys_turned);
    pack_column_words(a.k, row0, at.kv * d, have, d, dw, m.keys);
  } else {
    pack_rows<T>(a.v, row0, at.kv * d, have, d, dw, 1, m.keys);
    turn(m.keys, dw, m.values_turned);
    pack_rows<T>(a.k, row0, at.kv * d, have, d, dw, 1, m.keys);
    turn(m.keys, dw, m.keys_turned);
  }
  clock.packed();
  set_zero(m.dk, tile * dw);
  set_zero(m.dv, tile * dw);
  for (at.g = 0; at.g < a.heads / a.kv_heads; ++at.g) {
    const auto s = shared_head(a, at.slot, at.g);
    const auto drop = drop_of(a, at.b, at.head(a));
    if (m.by_distance != nullptr) set_zero(m.by_distance, plan::attention_rows(a.sequence) + tile);
    over_queries(a, at.head(a), j, [&](int64_t i, unsigned parts) {
      if (j >= s.first[i] && j < s.end[i]) backward_step<T>(a, at, s, m, drop, i, j, parts, clock);
    });
    if (m.by_distance != nullptr) add_by_distance(a, s, m, j, clock);
  }
  for (int64_t r = 0; r < have; ++r) {
    T *dk = a.dk.row<T>(row0 + r) + at.kv * d, *dv = a.dv.row<T>(row0 + r) + at.kv * d;
    fetch<T, true>(a.dk, row0 + r + ahead, at.kv * d, d);
    fetch<T, true>(a.dv, row0 + r + ahead, at.kv * d, d);
    const float scale = paired<T> ? static_cast<float>(a.scale) : 1.0f;  // otherwise queries were packed with the scale
    put_row(d, dk, m.dk + r * dw, [&](float v) { return v * scale; });
    put_row(d, dv, m.dv + r * dw, [](float v) { return v; });
  }
  clock.computed();
}

// Adds the gradient of the bias of query head h to the gradient of the sequences before, for the groups [g0, g0 +
// count) that have been computed.
void add_sequences(const AttentionBackwardArgs& a, int64_t h, int64_t g0, int64_t count) {
  const int64_t group = a.heads / a.kv_heads;
  float* to = a.d_bias.row<float>(h);
  for (int64_t slot = 0; slot < count; ++slot) {
    if ((g0 + slot) % a.kv_heads != h / group) continue;
    const float* from = shared_head(a, slot, h % group).d_bias;
    if (g0 + slot < a.kv_heads) {
      copy_elements(to, from, a.d_bias.cols);
      continue;
    }
#pragma omp simd
    for (int64_t n = 0; n < a.d_bias.cols; ++n) to[n] += from[n];
  }
}

// A group is a pair (sequence, key-value head). As many groups as there are slots are computed at a time, and all
// threads share their tiles.
template <class T> void backward_pass(const AttentionBackwardArgs& a) {
  const int64_t tiles = tiles_of(a), key_tiles = key_tiles_of(a), groups = a.batch * a.kv_heads,
                group = a.heads / a.kv_heads;
  int64_t next = 0;
#pragma omp parallel num_threads(a.threads)
  {
    int64_t me = 0;
#pragma omp atomic capture
    me = next++;
    const auto m = backward_buffers(a, a.scratch + me * a.scratch_part);
    TeamClock clock(a.team, me);
    [[maybe_unused]] const TilesOfThread set_up;
    for (int64_t g0 = 0; g0 < groups; g0 += a.slots) {
      const int64_t count = least(a.slots, groups - g0);
      const auto place = [&](int64_t slot, int64_t g) {
        return HeadPlace{(g0 + slot) / a.kv_heads, (g0 + slot) % a.kv_heads, slot, g};
      };
#pragma omp for schedule(dynamic, 1) nowait
      for (int64_t u = 0; u < count * group * tiles; ++u)
        prepare_tile<T>(a, place(u % count, u / count % group), u / count / group);
      clock.computed();
#pragma omp barrier
      clock.start();
#pragma omp for schedule(monotonic : dynamic, 1)
      for (int64_t u = 0; u < count * key_tiles; ++u) backward_tile<T>(a, place(u % count, 0), m, u / count, clock);
      clock.start();
      if (m.by_distance == nullptr) continue;
#pragma omp for schedule(static)
      for (int64_t h = 0; h < a.heads; ++h) add_sequences(a, h, g0, count);
      clock.start();
    }
  }
}

}  // namespace

void attention_backward_cpu(const AttentionBackwardArgs& a) {
#if defined(TRAINYARD_BF16_PAIRS)
  if (a.q.type != Type::bf16) return TRAINYARD_BASE_NAMESPACE::attention_backward_cpu(a);
#else
  if (a.q.type == Type::f64) return attention_exact_backward_cpu(a);
#endif
  with_type_of_product(a.q.type, [&]<class T>(T*) { backward_pass<T>(a); });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
