// Attention's forward pass on the CPU with sums in f32, tile by tile. The scores of a tile are stored with queries side
// by side. So maxima and sums of all queries stay in vector lanes, and probabilities are where the product with the
// values reads them.
#include "kernels/attention/attention_tile_cpu.h"
#include "kernels/team_clock_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Keys and values of a key-value head, in f32 or as words of pairs, packed once for all tiles of queries that read
// them.
struct PackedHead {
  float *keys, *values;
};
PackedHead packed_head(const AttentionArgs& a, int64_t slot) {
  Bump bump{a.shared + slot * a.shared_part};
  const int64_t elements = plan::attention_rows(a.keys) * plan::attention_width(a.head_dim);
  float* const keys = bump.take(elements);
  return {keys, bump.take(elements)};
}

struct ForwardBuffers {
  float *rows, *queries, *mixed, *scores;
  std::int32_t *lo, *hi;
  float *top, *sum, *shrink;
};
ForwardBuffers forward_buffers(const AttentionArgs& a, char* scratch) {
  const int64_t dw = plan::attention_width(a.head_dim);
  Bump bump{scratch};
  ForwardBuffers m{};
  for (float** tile_rows : {&m.rows, &m.queries, &m.mixed}) *tile_rows = bump.take(tile * dw);
  m.scores = bump.take(tile * tile);
  m.lo = bump.take<std::int32_t>(tile), m.hi = bump.take<std::int32_t>(tile);
  for (float** of_query : {&m.top, &m.sum, &m.shrink}) *of_query = bump.take(tile);
  return m;
}

// Turns the products of keys [k0, k1) and queries [q0, q1) into scores with a cap.
void cap_scores(const ForwardBuffers& m, const Scores& how, int64_t k0, int64_t k1, int64_t q0, int64_t q1) {
  const Vec inner = broadcast(how.inner), cap = broadcast(how.cap);
  for (int64_t k = k0; k < k1; ++k)
    for (int64_t q = q0; q < q1; q += lanes) {
      float* at = m.scores + k * tile + q;
      put(at, cap * tanh_of(load(at) * inner));
    }
}

// Adds the bias of positions to `inner` times the scores of keys [k0, k1) and queries [q0, q1).
void add_bias(const ForwardBuffers& m, const TileBias& bias, float inner, int64_t k0, int64_t k1, int64_t q0,
              int64_t q1) {
  const Vec factor = broadcast(inner);
  for (int64_t k = k0; k < k1; ++k)
    for (int64_t q = q0; q < q1; q += lanes) {
      float* at = m.scores + k * tile + q;
      put(at, plus(load(at) * factor, load(bias.at(q - k))));
    }
}

// Hides keys [k0, k1) from queries [q0, q1) where a query does not see a key; the tile of keys begins with key j0.
void hide(const ForwardBuffers& m, int64_t j0, int64_t k0, int64_t k1, int64_t q0, int64_t q1) {
  for (int64_t q = q0; q < q1; q += lanes) {
    IntVec lo, hi;
    memcpy(&lo, m.lo + q, sizeof lo), memcpy(&hi, m.hi + q, sizeof hi);
    for (int64_t k = k0; k < k1; ++k) {
      float* row = m.scores + k * tile + q;
      put(row, within(load(row), same(static_cast<std::int32_t>(j0 + k)), lo, hi));
    }
  }
}

// Scales the probabilities of kept pairs, and sets the others to zero; the softmax sums contain all pairs (Srivastava
// et al. 2014).
void drop_scores(const Drop& d, const ForwardBuffers& m, int64_t i0, int64_t j0, int64_t k0, int64_t k1, int64_t q0,
                 int64_t q1) {
  for (int64_t k = k0; k < k1; k += 4)
#pragma omp simd
    for (int64_t q = q0; q < q1; ++q) {
      const auto words = drop_words(d, i0 + q, j0 + k);
      for (int w = 0; w < 4; ++w) m.scores[(k + w) * tile + q] *= words.w[w] >= d.threshold ? d.scale : 0.0f;
    }
}

// Calls part_of<count>(q) for groups of `count` registers of the queries [q0, q1), which are a multiple of parts.
// Several registers at a time hide latency, because each query's value depends on the key before.
template <class Part>
inline __attribute__((always_inline)) void over_registers(int64_t q0, int64_t q1, const Part& part_of) {
  constexpr int together = 4;
  int64_t q = q0;
  for (; q + together * lanes <= q1; q += together * lanes) part_of.template operator()<together>(q);
  for (; q < q1; q += lanes) part_of.template operator()<1>(q);
}

// Raises `best` to the greatest score among keys [k0, k1).
void raise_tops(const ForwardBuffers& m, int64_t k0, int64_t k1, int64_t q0, int64_t q1, float* best) {
  over_registers(
      q0, q1, [&]<int count>(int64_t q) __attribute__((always_inline)) {
        Vec x[count];
#pragma GCC unroll 4
        for (int v = 0; v < count; ++v) x[v] = load(best + q + v * lanes);
        for (int64_t k = k0; k < k1; ++k)
#pragma GCC unroll 4
          for (int v = 0; v < count; ++v) x[v] = greater(load(m.scores + k * tile + q + v * lanes), x[v]);
#pragma GCC unroll 4
        for (int v = 0; v < count; ++v) put(best + q + v * lanes, x[v]);
      });
}

// Turns the scores of keys [k0, k1) into exponentials of (score - base of the query), times `scale` for paired
// operands, and adds them to the sums. T is the operands' type. words: the exponentials become words of two keys each,
// as from round_rows. beside(k) is called once for each key, for other work.
template <class T, bool words, class Beside> void exponentials(const ForwardBuffers& m, float scale, int64_t k0,
                                                               int64_t k1, int64_t q0, int64_t q1, const float* base,
                                                               float* sums, const Beside& beside) {
  const Vec factor = broadcast(scale);
  over_registers(
      q0, q1, [&]<int count>(int64_t first) __attribute__((always_inline)) {
        Vec from[count], sum[count];
#pragma GCC unroll 4
        for (int v = 0; v < count; ++v) from[v] = load(base + first + v * lanes), sum[v] = zero();
        const auto exponential = [&](int64_t k, int v) __attribute__((always_inline)) {
          const Vec score = load(m.scores + k * tile + first + v * lanes) - from[v];
          return exp_of<Range::least>(paired<T> ? score * factor : score);
        };
        constexpr int steps = words ? 2 : 1;
        for (int64_t k = k0; k < k1; k += steps) {
          if (first == q0)
            for (int s = 0; s < steps; ++s) beside(k + s);
#pragma GCC unroll 4
          for (int v = 0; v < count; ++v) {
            const int64_t q = first + v * lanes;
            const Vec p = exponential(k, v);
            sum[v] = plus(sum[v], p);
            if constexpr (words) {
              const Vec next = exponential(k + 1, v);
              sum[v] = plus(sum[v], next);
              put(m.scores + k / 2 * tile + q, rounded_word(p, next));
            } else {
              put(m.scores + k * tile + q, p);
            }
          }
        }
#pragma GCC unroll 4
        for (int v = 0; v < count; ++v) put(sums + first + v * lanes, plus(load(sums + first + v * lanes), sum[v]));
      });
}

struct Place {
  int64_t b, h, i;
};

// One step of the online softmax: the tile of keys at j0, for the parts of the tile of queries that see it. With paired
// operands, probabilities become words.
template <class T, class Beside> void softmax_step(const AttentionForwardArgs& a, const Place& at,
                                                   const ForwardBuffers& m, const Drop& drop, unsigned parts,
                                                   bool sees_all, int64_t j0, const Rows& keys, const Beside& beside) {
  const int64_t d = a.head_dim, dw = plan::attention_width(d);
  const auto how = scores_of<T>(a);
  const float scale = how.factor;
  alignas(64) float best[tile], base[tile], fresh[tile];
  TileBias bias;
  if (a.bias != nullptr) take_bias<true>(a, at.h, at.i * tile, j0, &bias);
  const auto step = [&](int64_t q0, int64_t q1, auto over) {
    over([&](int64_t k0, int64_t k1) {
      tile_product<T, false>(k1 - k0, q1 - q0, words_of<T>(d), keys.first + k0 * keys.pitch, keys.pitch, 1,
                             m.queries + q0, tile, m.scores + k0 * tile + q0, tile, false);
      if (how.cap != 0) cap_scores(m, how, k0, k1, q0, q1);
      if (a.bias != nullptr) add_bias(m, bias, how.cap != 0 ? 1.0f : how.inner, k0, k1, q0, q1);
      if (!sees_all) hide(m, j0, k0, k1, q0, q1);
    });
    for (int64_t q = q0; q < q1; ++q) best[q] = m.top[q], fresh[q] = 0;
    over([&](int64_t k0, int64_t k1) { raise_tops(m, k0, k1, q0, q1, best); });
#pragma omp simd
    for (int64_t q = q0; q < q1; ++q) {
      base[q] = best[q] == -__builtin_inff() ? 0.0f : best[q];  // 0 for a query that has seen nothing yet
      m.shrink[q] = exp_of((m.top[q] - base[q]) * scale);
      m.top[q] = best[q];
    }
    over([&](int64_t k0, int64_t k1) {
      if (drop.threshold == 0) return exponentials<T, paired<T>>(m, scale, k0, k1, q0, q1, base, fresh, beside);
      exponentials<T, false>(m, scale, k0, k1, q0, q1, base, fresh, beside);
      drop_scores(drop, m, at.i * tile, j0, k0, k1, q0, q1);
      if (paired<T>) round_rows(m.scores, k0, k1, q0, q1);
    });
    for (int64_t q = q0; q < q1; ++q) {
      m.sum[q] = m.sum[q] * m.shrink[q] + fresh[q];
      if (m.shrink[q] == 1) continue;
      float* row = m.mixed + q * dw;
      const float shrink = m.shrink[q];
#pragma omp simd
      for (int64_t c = 0; c < dw; ++c) row[c] *= shrink;
    }
  };
  if (parts == whole) {
    step(0, tile, [](const auto& run) { run(0, tile); });
    return;
  }
  for (int r = 0; r < parts_of_row; ++r) {
    if ((parts >> parts_of_row * r & 15u) == 0) continue;
    step(r * part, (r + 1) * part, [&](const auto& run) {
      over_runs([&](int c) { return has_part(parts, r, c); },
                [&](int from, int to) { run(static_cast<int64_t>(from) * part, static_cast<int64_t>(to) * part); });
    });
  }
}

// Adds probabilities times values to `mixed`.
template <class T> void mix(const ForwardBuffers& m, unsigned parts, int64_t dw, const Rows& values) {
  const auto add = [&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const int64_t word0 = k0 / steps_of_word<T>;
    tile_product<T, true>(q1 - q0, dw, words_of<T>(k1 - k0), m.scores + word0 * tile + q0, 1, tile,
                          values.first + word0 * values.pitch, values.pitch, m.mixed + q0 * dw, dw, true);
  };
  if (parts == whole) return add(0, tile, 0, tile);
  for (int r = 0; r < parts_of_row; ++r)
    over_runs([&](int c) { return has_part(parts, r, c); },
              [&](int from, int to) { add(r * part, (r + 1) * part, from * part, to * part); });
}

template <class T> void forward_tile(const AttentionForwardArgs& a, const Place& at, const PackedHead& head,
                                     const ForwardBuffers& m, TeamClock& clock) {
  const int64_t d = a.head_dim, dw = plan::attention_width(d), i0 = at.i * tile, row0 = at.b * a.sequence,
                key_row0 = at.b * a.keys;
  const auto limits = limits_of(a, at.b, i0);
  const auto drop = drop_of(a, at.b, at.h);
  for (int q = 0; q < tile; ++q) {
    m.lo[q] = limits.lo[q], m.hi[q] = limits.hi[q];
    m.top[q] = -__builtin_inff(), m.sum[q] = 0;
  }
  set_zero(m.mixed, tile * dw);
  if constexpr (paired<T>) pack_row_words(a.q, row0 + i0, at.h * d, limits.rows, d, dw, m.rows);
  else pack_rows<T>(a.q, row0 + i0, at.h * d, limits.rows, d, dw, static_cast<float>(a.scale), m.rows);
  turn(m.rows, dw / steps_of_word<T>, m.queries);
  clock.packed();
  over_keys(a, at.h, at.i, limits.first(), limits.end(), [&](int64_t j, unsigned parts) {
    const int64_t j0 = j * tile;
    parts &= limits.seen(j0);
    const int64_t have = least(tile, a.keys - j0), kv = at.h / (a.heads / a.kv_heads) * d;
    const auto rows = [&](const ConstMat& x, const float* packed, int64_t pitch) {
      return packed != nullptr ? Rows{packed + j0 * (dw / steps_of_word<T>), pitch}
                               : rows_of<T>(x, key_row0 + j0, kv, have, d, dw, m.rows);
    };
    softmax_step<T>(a, at, m, drop, parts, limits.sees_all(j0), j0, rows(a.k, head.keys, dw / steps_of_word<T>),
                    [&](int64_t k) {
                      if (head.values == nullptr) fetch<T>(a.v, key_row0 + j0 + k, kv, d);
                    });
    mix<T>(m, parts, dw, rows(a.v, head.values, dw));
  });
  float* lse = a.lse.row<float>(at.b * a.heads + at.h) + i0;
  for (int q = 0; q < limits.rows; ++q) {
    T* out = a.out.row<T>(row0 + i0 + q) + at.h * d;
    const float* mixed = m.mixed + q * dw;
    const bool nothing = m.top[q] == -__builtin_inff();
    const float sum = nothing ? 1.0f : m.sum[q];
    put_row(d, out, mixed, [&](float v) { return v / sum; });
    lse[q] = nothing
                 ? __builtin_inff()
                 : m.top[q] * scores_of<T>(a).factor + static_cast<float>(__builtin_log(static_cast<double>(m.sum[q])));
  }
  clock.computed();
}

// The class of a tile of queries by its cost. With lists, some tiles cost more than others. Threads take the dearest
// class first, so that they end together.
constexpr int classes = 4;
int class_of(const AttentionArgs& a, int64_t h, int64_t i, int64_t mean) {
  const auto e = entries_of(a, a.visibility.by_queries, h, i);
  const int64_t n = e.end - e.begin;
  return n > 4 * mean ? 0 : n > 2 * mean ? 1 : n > mean ? 2 : 3;
}

// If on average at most this many tiles of queries read a tile of keys, and keys need no widening, keys and values are
// not packed. They are read in place. Then all heads of a tile of queries are computed one after another, because their
// rows are neighbours in memory.
constexpr int64_t few_readers = 12;

// A group is a pair (sequence, key-value head). As many groups as there are slots are computed at a time, and all
// threads share their tiles.
template <class T> void forward_pass(const AttentionForwardArgs& a) {
  const int64_t tiles = tiles_of(a), key_tiles = key_tiles_of(a), groups = a.batch * a.kv_heads,
                group = a.heads / a.kv_heads, d = a.head_dim, dw = plan::attention_width(d);
  const bool listed = a.visibility.by_queries.begin != nullptr;
  const int64_t mean =
      listed ? (a.visibility.by_queries.begin[a.visibility.by_queries.heads * a.visibility.by_queries.tiles] - 1) /
                       (a.visibility.by_queries.heads * a.visibility.by_queries.tiles) +
                   1
             : 0;
  const bool thin = listed && sizeof(T) == sizeof(float) && d == dw && mean * group <= few_readers;
  int64_t next = 0;
#pragma omp parallel num_threads(a.threads)
  {
    int64_t me = 0;
#pragma omp atomic capture
    me = next++;
    const auto m = forward_buffers(a, a.scratch + me * a.scratch_part);
    TeamClock clock(a.team, me);
    [[maybe_unused]] const TilesOfThread set_up;
    if (thin) {
      const int64_t heads = a.batch * a.heads, units = heads * tiles;
#pragma omp for schedule(dynamic, 1)
      for (int64_t u = 0; u < classes * units; ++u) {
        const int64_t n = u % units, b = n % heads / a.heads, h = n % a.heads, i = n / heads;
        if (class_of(a, h, i, mean) == u / units) forward_tile<T>(a, {b, h, i}, {}, m, clock);
      }
    }
    for (int64_t g0 = thin ? groups : 0; g0 < groups; g0 += a.slots) {
      const int64_t count = least(a.slots, groups - g0);
#pragma omp for schedule(dynamic, 1) nowait
      for (int64_t u = 0; u < count * key_tiles; ++u) {
        const int64_t slot = u / key_tiles, j0 = u % key_tiles * tile, b = (g0 + slot) / a.kv_heads,
                      kv = (g0 + slot) % a.kv_heads, have = least(tile, a.keys - j0);
        const auto head = packed_head(a, slot);
        const int64_t row0 = b * a.keys + j0;
        if constexpr (paired<T>) {
          pack_row_words(a.k, row0, kv * d, have, d, dw, head.keys + j0 * (dw / 2));
          pack_column_words(a.v, row0, kv * d, have, d, dw, head.values + j0 * (dw / 2));
        } else {
          pack_rows<T>(a.k, row0, kv * d, have, d, dw, 1, head.keys + j0 * dw);
          pack_rows<T>(a.v, row0, kv * d, have, d, dw, 1, head.values + j0 * dw);
        }
      }
      clock.packed();
#pragma omp barrier
      clock.start();
      const int64_t heads = count * group, units = heads * tiles;
#pragma omp for schedule(dynamic, 1)
      for (int64_t u = 0; u < (listed ? classes : 1) * units; ++u) {
        const int64_t n = u % units, slot = n % heads / group, g = g0 + slot, b = g / a.kv_heads,
                      h = g % a.kv_heads * group + n % heads % group;
        // Without lists, the last tiles cost most in a causal model.
        const int64_t i = listed ? n / heads : tiles - 1 - n / heads;
        if (listed && class_of(a, h, i, mean) != u / units) continue;
        forward_tile<T>(a, {b, h, i}, packed_head(a, slot), m, clock);
      }
      clock.start();
    }
  }
}

}  // namespace

void attention_forward_cpu(const AttentionForwardArgs& a) {
#if defined(TRAINYARD_BF16_PAIRS)
  if (a.q.type != Type::bf16) return TRAINYARD_BASE_NAMESPACE::attention_forward_cpu(a);
#else
  if (a.q.type == Type::f64) return attention_exact_forward_cpu(a);
#endif
  with_type_of_product(a.q.type, [&]<class T>(T*) { forward_pass<T>(a); });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
