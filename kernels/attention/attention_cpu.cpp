// Attention: the tiled f32 and bf16 paths, and a plain f64 path for gradient checks.
#include "kernels/attention/attention_args.h"

#include "kernels/micro_tile_cpu.h"
#include "kernels/philox_words.h"
#include "libtrain/plan/scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int bq = 64 / mr * mr, bk = 64;       // queries and keys of a tile
constexpr int key_panels = (bk + mr - 1) / mr;  // keys as rows of a product
constexpr int key_rows = key_panels * mr;

struct Drop {
  std::uint32_t threshold;
  float scale;
  std::uint64_t key, site;
};

Drop drop_of(const AttentionArgs& a, int64_t b, int64_t h) {
  const std::uint64_t sample = a.threshold != 0 ? a.samples[b] : 0;
  return {a.threshold, a.keep_scale, a.seed + sample * 0x9E3779B97F4A7C15ull, a.site + static_cast<std::uint64_t>(h)};
}

bool kept(const Drop& d, int64_t i, int64_t j) {
  return philox_words(d.key, d.site, (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4))
             .w[j % 4] >= d.threshold;
}

// mask[c]: 0, or the scale of kept pairs, for keys j0 .. j0 + bk of query i.
void drop_row(const Drop& d, int64_t i, int64_t j0, float* mask) {
  for (int c = 0; c < bk; c += 4) {
    const auto words =
        philox_words(d.key, d.site, (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>((j0 + c) / 4));
    for (int l = 0; l < 4; ++l) mask[c + l] = words.w[l] >= d.threshold ? d.scale : 0.0f;
  }
}

int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
int64_t wide_dim(int64_t d) { return (d + 31) / 32 * 32; }

// A bump pointer over one thread's part of the scratch.
struct Bump {
  char* at;
  float* take(int64_t bytes) {
    float* p = reinterpret_cast<float*>(at);
    at += base::aligned(bytes);
    return p;
  }
};

// Rows of a head as panels over rows (steps over the head's elements): `width` rows a panel.
template <class T>
void pack_rows(const Mat& x, int64_t row0, int64_t column, int64_t count, int width, int64_t d, float* out) {
  for (int64_t r = 0; r < count; r += width)
    pack_panel(x.row<T>(row0 + r) + column, x.pitch, 1, least(width, count - r), width, d, out + r * d);
}

// Tiles of bk (or bq) rows as panels over the head's columns (steps over rows); a short last tile has zero steps behind
// it.
template <class T>
void pack_columns(const Mat& x, int64_t row0, int64_t column, int64_t count, int tile, int64_t d, float* out) {
  const int64_t dw = wide_dim(d);
  for (int64_t r = 0; r < count; r += tile) {
    const int64_t have = least(tile, count - r);
    for (int64_t c = 0; c < dw; c += nr) {
      float* panel = out + r * dw + c * tile;
      if (have < tile || c >= d) memset(panel, 0, static_cast<std::size_t>(tile * nr) * sizeof(float));
      if (c < d) pack_panel(x.row<T>(row0 + r) + column + c, 1, x.pitch, least(nr, d - c), nr, have, panel);
    }
  }
}

// c[rows, columns] (+)= A panels * B panels over k steps; rows and columns in whole panels, c has that room.
void multiply(int64_t row_panels, int64_t column_panels, int64_t k, const float* a, const float* b, float* c,
              int64_t pitch, int add) {
  for (int64_t j = 0; j < column_panels; ++j)
    for (int64_t i = 0; i < row_panels; ++i)
      micro_tile(k, a + i * mr * k, b + j * nr * k, c + i * mr * pitch + j * nr, pitch, add);
}

struct Head {
  int64_t b, h, kv, row0, column, kv_column;
};
Head head_of(const AttentionArgs& a, int64_t b, int64_t h) {
  const int64_t kv = h / (a.heads / a.kv_heads);
  return {b, h, kv, b * a.sequence, h * a.head_dim, kv * a.head_dim};
}

// The first key that any of the queries [i0, i1) of a sequence sees.
int64_t first_key(const AttentionArgs& a, int64_t row0, int64_t i0, int64_t i1) {
  int64_t first = i0;
  for (int64_t i = i0; i < i1; ++i) first = least(first, a.document_start[row0 + i]);
  return first;
}

// Scaled scores of queries i0.. against keys j0..; what a query does not see becomes -infinity.
void mask_scores(const AttentionArgs& a, int64_t row0, int64_t i0, int64_t rows, int64_t j0, float* s) {
  const float scale = static_cast<float>(a.scale);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t from = a.document_start[row0 + i0 + r] - j0, to = i0 + r - j0;
    float* row = s + r * bk;
    if (from <= 0 && to >= bk - 1) {
      for (int c = 0; c < bk; ++c) row[c] *= scale;
    } else {
      for (int c = 0; c < bk; ++c) row[c] = c >= from && c <= to ? row[c] * scale : -__builtin_inff();
    }
  }
}

template <class T> void forward_head(const AttentionArgs& a, int64_t b, int64_t h, char* scratch) {
  const auto head = head_of(a, b, h);
  const int64_t T_ = a.sequence, d = a.head_dim, dw = wide_dim(d);
  const auto drop = drop_of(a, b, h);
  Bump bump{scratch};
  float* kt = bump.take(plan::attention_packed_bytes(T_, d));
  float* vb = bump.take(plan::attention_packed_bytes(T_, d));
  float* qa = bump.take(96 * dw * 4);
  float* acc = bump.take(96 * dw * 4);
  float* s = bump.take(80 * 96 * 4);
  float* pa = bump.take(80 * 96 * 4);
  pack_rows<T>(a.k, head.row0, head.kv_column, T_, nr, d, kt);
  if (T_ % bk != 0) memset(kt + (T_ + nr - 1) / nr * nr * d, 0, static_cast<std::size_t>(bk * d) * sizeof(float));
  pack_columns<T>(a.v, head.row0, head.kv_column, T_, bk, d, vb);
  for (int64_t i0 = 0; i0 < T_; i0 += bq) {
    const int64_t rows = least(bq, T_ - i0), panels = (rows + mr - 1) / mr;
    float top[bq], sum[bq];
    for (int r = 0; r < bq; ++r) top[r] = -__builtin_inff(), sum[r] = 0;
    memset(acc, 0, static_cast<std::size_t>(panels * mr * dw) * sizeof(float));
    pack_rows<T>(a.q, head.row0 + i0, head.column, rows, mr, d, qa);
    for (int64_t j0 = first_key(a, head.row0, i0, i0 + rows) / bk * bk; j0 < i0 + rows; j0 += bk) {
      multiply(panels, bk / nr, d, qa, kt + j0 * d, s, bk, 0);
      mask_scores(a, head.row0, i0, rows, j0, s);
      for (int64_t r = 0; r < rows; ++r) {
        float* row = s + r * bk;
        float best = top[r];
        for (int c = 0; c < bk; ++c) best = row[c] > best ? row[c] : best;
        if (best == -__builtin_inff()) {
          for (int c = 0; c < bk; ++c) row[c] = 0;
          continue;
        }
        const float shrink = exp_of(top[r] - best);
#pragma omp simd
        for (int c = 0; c < bk; ++c) row[c] = exp_of(row[c] - best);
        sum[r] = sum[r] * shrink + lane_sum<float>(bk, [&](int64_t c) { return row[c]; });
        if (best != top[r])
          for (int64_t c = 0; c < dw; ++c) acc[r * dw + c] *= shrink;
        top[r] = best;
        if (drop.threshold != 0) {
          float mask[bk];
          drop_row(drop, i0 + r, j0, mask);
          for (int c = 0; c < bk; ++c) row[c] *= mask[c];
        }
      }
      for (int64_t p = 0; p < panels; ++p)
        pack_panel(s + p * mr * bk, bk, 1, least(mr, rows - p * mr), mr, bk, pa + p * mr * bk);
      multiply(panels, dw / nr, bk, pa, vb + j0 * dw, acc, dw, 1);
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* out = a.out.row<T>(head.row0 + i0 + r) + head.column;
      for (int64_t c = 0; c < d; ++c) store(&out[c], acc[r * dw + c] / sum[r]);
      a.lse.row<float>(b * a.heads + h)[i0 + r] =
          top[r] + static_cast<float>(__builtin_log(static_cast<double>(sum[r])));
    }
  }
}

struct BackwardBuffers {
  float *kt, *vt, *kb, *qa, *qb, *oa, *ob, *dq, *delta, *s, *dp, *ds, *pa, *da, *dk, *dv, *mask;
};

// All query tiles of one head against the key tile at j0: adds to dk, dv [key_rows, dw] of the tile and to dq of the
// head.
void backward_tile(const AttentionArgs& a, const Head& head, const Drop& drop, const BackwardBuffers& m, int64_t j0) {
  const int64_t T_ = a.sequence, d = a.head_dim, dw = wide_dim(d);
  for (int64_t i0 = j0 / bq * bq; i0 < T_; i0 += bq) {
    const int64_t rows = least(bq, T_ - i0), panels = (rows + mr - 1) / mr;
    if (i0 + rows <= j0 || first_key(a, head.row0, i0, i0 + rows) >= j0 + bk) continue;
    multiply(panels, bk / nr, d, m.qa + i0 * d, m.kt + j0 * d, m.s, bk, 0);
    multiply(panels, bk / nr, d, m.oa + i0 * d, m.vt + j0 * d, m.dp, bk, 0);
    mask_scores(a, head.row0, i0, rows, j0, m.s);
    for (int64_t r = 0; r < rows; ++r) {
      float* p = m.s + r * bk;
      float* ds = m.ds + r * bk;
      const float* dp = m.dp + r * bk;
      const float lse = a.lse.row<float>(head.b * a.heads + head.h)[i0 + r], delta = m.delta[i0 + r],
                  scale = static_cast<float>(a.scale);
#pragma omp simd
      for (int c = 0; c < bk; ++c) p[c] = exp_of(p[c] - lse);
      if (drop.threshold == 0) {
#pragma omp simd
        for (int c = 0; c < bk; ++c) ds[c] = p[c] * (dp[c] - delta) * scale;
      } else {
        drop_row(drop, i0 + r, j0, m.mask);
        for (int c = 0; c < bk; ++c) {
          ds[c] = p[c] * (dp[c] * m.mask[c] - delta) * scale;
          p[c] *= m.mask[c];
        }
      }
    }
    // Products over queries take bq steps: rows beyond the sequence count as zero.
    for (int64_t r = rows; r < bq; ++r)
      for (int c = 0; c < bk; ++c) m.s[r * bk + c] = m.ds[r * bk + c] = 0;
    for (int q = 0; q < key_panels; ++q)
      pack_panel(m.s + q * mr, 1, bk, least(mr, bk - q * mr), mr, bq, m.pa + q * mr * bq);
    multiply(key_panels, dw / nr, bq, m.pa, m.ob + i0 * dw, m.dv, dw, 1);
    for (int q = 0; q < key_panels; ++q)
      pack_panel(m.ds + q * mr, 1, bk, least(mr, bk - q * mr), mr, bq, m.da + q * mr * bq);
    multiply(key_panels, dw / nr, bq, m.da, m.qb + i0 * dw, m.dk, dw, 1);
    for (int64_t p = 0; p < panels; ++p)
      pack_panel(m.ds + p * mr * bk, bk, 1, least(mr, rows - p * mr), mr, bk, m.da + p * mr * bk);
    multiply(panels, dw / nr, bk, m.da, m.kb + j0 * dw, m.dq + i0 * dw, dw, 1);
  }
}

template <class T> void prepare_head(const AttentionArgs& a, const Head& head, const BackwardBuffers& m) {
  const int64_t T_ = a.sequence, d = a.head_dim, dw = wide_dim(d);
  pack_rows<T>(a.q, head.row0, head.column, T_, mr, d, m.qa);
  pack_rows<T>(a.dout, head.row0, head.column, T_, mr, d, m.oa);
  pack_columns<T>(a.q, head.row0, head.column, T_, bq, d, m.qb);
  pack_columns<T>(a.dout, head.row0, head.column, T_, bq, d, m.ob);
  memset(m.dq, 0, static_cast<std::size_t>((T_ + bq - 1) / bq * bq * dw) * sizeof(float));
  for (int64_t i = 0; i < T_; ++i) {
    const T* out = a.out.row<T>(head.row0 + i) + head.column;
    const T* dout = a.dout.row<T>(head.row0 + i) + head.column;
    m.delta[i] = lane_sum<float>(d, [&](int64_t c) { return widen(out[c]) * widen(dout[c]); });
  }
}

template <class T> void store_rows(const Mat& to, int64_t row0, int64_t column, int64_t rows, int64_t d,
                                   const float* from, int64_t pitch) {
  for (int64_t r = 0; r < rows; ++r) {
    T* out = to.row<T>(row0 + r) + column;
    for (int64_t c = 0; c < d; ++c) store(&out[c], from[r * pitch + c]);
  }
}

// One (sequence, key-value head). With one query head dk and dv of a key tile are complete after its queries and leave
// at once; with more they are kept in f32 for the whole sequence until the last head has added its part, so that a
// narrower dtype is rounded to once.
template <class T> void backward_group(const AttentionArgs& a, int64_t b, int64_t kv, char* scratch) {
  const int64_t T_ = a.sequence, d = a.head_dim, dw = wide_dim(d), group = a.heads / a.kv_heads;
  const auto packed = plan::attention_packed_bytes(T_, d);
  Bump bump{scratch};
  BackwardBuffers m{};
  m.kt = bump.take(packed), m.vt = bump.take(packed), m.kb = bump.take(packed);
  m.qa = bump.take(packed), m.qb = bump.take(packed), m.oa = bump.take(packed), m.ob = bump.take(packed),
  m.dq = bump.take(packed);
  m.delta = bump.take(plan::attention_rows(T_) * 4);
  for (float** tile : {&m.s, &m.dp, &m.ds, &m.pa, &m.da}) *tile = bump.take(80 * 96 * 4);
  m.mask = bump.take(80 * 96 * 4);
  const int64_t kept_rows = group > 1 ? plan::attention_rows(T_) : key_rows;
  float* const dk = bump.take((group > 1 ? kept_rows : 96) * dw * 4);
  float* const dv = bump.take((group > 1 ? kept_rows : 96) * dw * 4);
  const auto kv_head = head_of(a, b, kv * group);
  pack_rows<T>(a.k, kv_head.row0, kv_head.kv_column, T_, nr, d, m.kt);
  pack_rows<T>(a.v, kv_head.row0, kv_head.kv_column, T_, nr, d, m.vt);
  if (T_ % bk != 0) {
    memset(m.kt + (T_ + nr - 1) / nr * nr * d, 0, static_cast<std::size_t>(bk * d) * sizeof(float));
    memset(m.vt + (T_ + nr - 1) / nr * nr * d, 0, static_cast<std::size_t>(bk * d) * sizeof(float));
  }
  pack_columns<T>(a.k, kv_head.row0, kv_head.kv_column, T_, bk, d, m.kb);
  const auto clear = [&] {
    memset(dk, 0, static_cast<std::size_t>(kept_rows * dw) * sizeof(float));
    memset(dv, 0, static_cast<std::size_t>(kept_rows * dw) * sizeof(float));
  };
  if (group > 1) clear();
  for (int64_t g = 0; g < group; ++g) {
    const auto head = head_of(a, b, kv * group + g);
    const auto drop = drop_of(a, b, head.h);
    prepare_head<T>(a, head, m);
    for (int64_t j0 = 0; j0 < T_; j0 += bk) {
      if (group == 1) clear();
      m.dk = dk + (group > 1 ? j0 * dw : 0), m.dv = dv + (group > 1 ? j0 * dw : 0);
      backward_tile(a, head, drop, m, j0);
      if (g + 1 < group) continue;
      store_rows<T>(a.dk, head.row0 + j0, head.kv_column, least(bk, T_ - j0), d, m.dk, dw);
      store_rows<T>(a.dv, head.row0 + j0, head.kv_column, least(bk, T_ - j0), d, m.dv, dw);
    }
    store_rows<T>(a.dq, head.row0, head.column, T_, d, m.dq, dw);
  }
}

void forward_f64(const AttentionArgs& a, int64_t b, int64_t h) {
  const auto head = head_of(a, b, h);
  const auto drop = drop_of(a, b, h);
  const double keep = 1.0 / (1.0 - static_cast<double>(a.threshold) * 0x1p-32);
  const auto score = [&](int64_t i, int64_t j) {
    double s = 0;
    for (int64_t c = 0; c < a.head_dim; ++c)
      s += a.q.row<double>(head.row0 + i)[head.column + c] * a.k.row<double>(head.row0 + j)[head.kv_column + c];
    return s * a.scale;
  };
  for (int64_t i = 0; i < a.sequence; ++i) {
    const int64_t from = a.document_start[head.row0 + i];
    double top = -__builtin_inf(), sum = 0;
    for (int64_t j = from; j <= i; ++j) top = score(i, j) > top ? score(i, j) : top;
    for (int64_t j = from; j <= i; ++j) sum += exp_of(score(i, j) - top);
    double* out = a.out.row<double>(head.row0 + i) + head.column;
    for (int64_t c = 0; c < a.head_dim; ++c) out[c] = 0;
    for (int64_t j = from; j <= i; ++j) {
      const double p = exp_of(score(i, j) - top) / sum * (a.threshold == 0 ? 1.0 : kept(drop, i, j) ? keep : 0.0);
      for (int64_t c = 0; c < a.head_dim; ++c) out[c] += p * a.v.row<double>(head.row0 + j)[head.kv_column + c];
    }
    a.lse.row<double>(b * a.heads + h)[i] = top + __builtin_log(sum);
  }
}

void backward_f64(const AttentionArgs& a, int64_t b, int64_t kv) {
  const int64_t d = a.head_dim, group = a.heads / a.kv_heads;
  const double keep = 1.0 / (1.0 - static_cast<double>(a.threshold) * 0x1p-32);
  for (int64_t j = 0; j < a.sequence; ++j)
    for (int64_t c = 0; c < d; ++c)
      a.dk.row<double>(b * a.sequence + j)[kv * d + c] = a.dv.row<double>(b * a.sequence + j)[kv * d + c] = 0;
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const auto head = head_of(a, b, h);
    const auto drop = drop_of(a, b, h);
    for (int64_t i = 0; i < a.sequence; ++i) {
      const double* q = a.q.row<double>(head.row0 + i) + head.column;
      const double* dout = a.dout.row<double>(head.row0 + i) + head.column;
      const double* out = a.out.row<double>(head.row0 + i) + head.column;
      double* dq = a.dq.row<double>(head.row0 + i) + head.column;
      double delta = 0;
      for (int64_t c = 0; c < d; ++c) delta += out[c] * dout[c], dq[c] = 0;
      for (int64_t j = a.document_start[head.row0 + i]; j <= i; ++j) {
        const double* k = a.k.row<double>(head.row0 + j) + head.kv_column;
        const double* v = a.v.row<double>(head.row0 + j) + head.kv_column;
        double s = 0, dp = 0;
        for (int64_t c = 0; c < d; ++c) s += q[c] * k[c], dp += dout[c] * v[c];
        const double p = exp_of(s * a.scale - a.lse.row<double>(b * a.heads + h)[i]);
        const double mask = a.threshold == 0 ? 1.0 : kept(drop, i, j) ? keep : 0.0;
        const double ds = p * (dp * mask - delta) * a.scale;
        for (int64_t c = 0; c < d; ++c) {
          dq[c] += ds * k[c];
          a.dk.row<double>(head.row0 + j)[head.kv_column + c] += ds * q[c];
          a.dv.row<double>(head.row0 + j)[head.kv_column + c] += p * mask * dout[c];
        }
      }
    }
  }
}

// Units of work are independent; a thread takes the next free one and uses its own part of the scratch.
template <class Body> void over_units(const AttentionArgs& a, int64_t units, const Body& body) {
  int64_t next = 0;
#pragma omp parallel num_threads(a.threads)
  {
    int64_t part = 0;
#pragma omp atomic capture
    part = next++;
    char* scratch = a.scratch + part * a.scratch_part;
#pragma omp for schedule(dynamic, 1)
    for (int64_t u = 0; u < units; ++u) body(u, scratch);
  }
}

}  // namespace

void attention_forward_cpu(const AttentionArgs& a) {
  over_units(a, a.batch * a.heads, [&](int64_t u, char* scratch) {
    const int64_t b = u / a.heads, h = u % a.heads;
    if (a.q.type == Type::f64) forward_f64(a, b, h);
    else if (a.q.type == Type::bf16) forward_head<b16>(a, b, h, scratch);
    else forward_head<float>(a, b, h, scratch);
  });
}

void attention_backward_cpu(const AttentionArgs& a) {
  over_units(a, a.batch * a.kv_heads, [&](int64_t u, char* scratch) {
    const int64_t b = u / a.kv_heads, kv = u % a.kv_heads;
    if (a.q.type == Type::f64) backward_f64(a, b, kv);
    else if (a.q.type == Type::bf16) backward_group<b16>(a, b, kv, scratch);
    else backward_group<float>(a, b, kv, scratch);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
