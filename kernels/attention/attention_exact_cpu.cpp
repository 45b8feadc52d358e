// Attention in f64, for gradient checks: pair by pair, directly from the definition.
#include "kernels/attention/attention_tile_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

struct ExactHead {
  int64_t b, h, row0, key_row0, column, kv_column;
};
ExactHead exact_head(const AttentionArgs& a, int64_t b, int64_t h) {
  const int64_t kv = h / (a.heads / a.kv_heads);
  return {.b = b,
          .h = h,
          .row0 = b * a.sequence,
          .key_row0 = b * a.keys,
          .column = h * a.head_dim,
          .kv_column = kv * a.head_dim};
}

double exact_mask(const AttentionArgs& a, const Drop& drop, int64_t i, int64_t j) {
  if (a.threshold == 0) return 1;
  const double keep = 1.0 / (1.0 - static_cast<double>(a.threshold) * 0x1p-32);
  return drop_words(drop, i, j).w[j % 4] >= a.threshold ? keep : 0.0;
}

// The score of a scaled product before its bias: itself, or capped.
double exact_score(const AttentionArgs& a, double scaled) {
  return a.softcap == 0 ? scaled : a.softcap * tanh_of(scaled / a.softcap);
}
// The bias of query i and key j of head h.
double exact_bias(const AttentionArgs& a, int64_t h, int64_t i, int64_t j) {
  if (a.bias == nullptr) return 0;
  return static_cast<const double*>(a.bias)[h * (a.sequence + a.keys - 1) + j - i + a.sequence - 1];
}

// Calls visit(j) for every key that query i sees, in ascending order.
template <class Visit> void seen_keys(const AttentionArgs& a, const ExactHead& head, int64_t i, const Visit& visit) {
  const auto limits = limits_of(a, head.b, i / tile * tile);
  const int64_t q = i % tile;
  over_keys(a, head.h, i / tile, limits.first(), limits.end(), [&](int64_t j, unsigned parts) {
    for (int k = 0; k < tile; ++k) {
      const int64_t key = j * tile + k;
      if (has_part(parts, static_cast<int>(q) / part, k / part) && key >= limits.lo[q] && key < limits.hi[q])
        visit(key);
    }
  });
}

void exact_forward(const AttentionForwardArgs& a, int64_t b, int64_t h) {
  const auto head = exact_head(a, b, h);
  const auto drop = drop_of(a, b, h);
  const auto score = [&](int64_t i, int64_t j) {
    double s = 0;
    for (int64_t c = 0; c < a.head_dim; ++c)
      s += a.q.row<double>(head.row0 + i)[head.column + c] * a.k.row<double>(head.key_row0 + j)[head.kv_column + c];
    return exact_score(a, s * a.scale) + exact_bias(a, h, i, j);
  };
  for (int64_t i = 0; i < a.sequence; ++i) {
    double top = -__builtin_inf(), sum = 0;
    seen_keys(a, head, i, [&](int64_t j) { top = score(i, j) > top ? score(i, j) : top; });
    seen_keys(a, head, i, [&](int64_t j) { sum += exp_of(score(i, j) - top); });
    double* out = a.out.row<double>(head.row0 + i) + head.column;
    for (int64_t c = 0; c < a.head_dim; ++c) out[c] = 0;
    seen_keys(a, head, i, [&](int64_t j) {
      const double p = exp_of(score(i, j) - top) / sum * exact_mask(a, drop, i, j);
      for (int64_t c = 0; c < a.head_dim; ++c) out[c] += p * a.v.row<double>(head.key_row0 + j)[head.kv_column + c];
    });
    a.lse.row<double>(b * a.heads + h)[i] = sum == 0 ? __builtin_inf() : top + __builtin_log(sum);
  }
}

void exact_backward(const AttentionBackwardArgs& a, int64_t b, int64_t kv) {
  const int64_t d = a.head_dim, group = a.heads / a.kv_heads;
  for (int64_t j = 0; j < a.keys; ++j)
    for (int64_t c = 0; c < d; ++c)
      a.dk.row<double>(b * a.keys + j)[kv * d + c] = a.dv.row<double>(b * a.keys + j)[kv * d + c] = 0;
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const auto head = exact_head(a, b, h);
    const auto drop = drop_of(a, b, h);
    for (int64_t i = 0; i < a.sequence; ++i) {
      const double* q = a.q.row<double>(head.row0 + i) + head.column;
      const double* dout = a.dout.row<double>(head.row0 + i) + head.column;
      const double* out = a.out.row<double>(head.row0 + i) + head.column;
      double* dq = a.dq.row<double>(head.row0 + i) + head.column;
      double delta = 0;
      for (int64_t c = 0; c < d; ++c) delta += out[c] * dout[c], dq[c] = 0;
      seen_keys(a, head, i, [&](int64_t j) {
        const double* k = a.k.row<double>(head.key_row0 + j) + head.kv_column;
        const double* v = a.v.row<double>(head.key_row0 + j) + head.kv_column;
        double s = 0, dp = 0;
        for (int64_t c = 0; c < d; ++c) s += q[c] * k[c], dp += dout[c] * v[c];
        const double score = exact_score(a, s * a.scale), part = a.softcap == 0 ? 0 : score / a.softcap;
        const double p = exp_of(score + exact_bias(a, h, i, j) - a.lse.row<double>(b * a.heads + h)[i]);
        const double mask = exact_mask(a, drop, i, j), slope = p * (dp * mask - delta),
                     ds = slope * (1 - part * part) * a.scale;
        if (!a.d_bias.empty()) a.d_bias.row<double>(h)[j - i + a.sequence - 1] += slope;
        for (int64_t c = 0; c < d; ++c) {
          dq[c] += ds * k[c];
          a.dk.row<double>(head.key_row0 + j)[head.kv_column + c] += ds * q[c];
          a.dv.row<double>(head.key_row0 + j)[head.kv_column + c] += p * mask * dout[c];
        }
      });
    }
  }
}

}  // namespace

void attention_exact_forward_cpu(const AttentionForwardArgs& a) {
#pragma omp parallel for num_threads(a.threads) schedule(dynamic, 1)
  for (int64_t u = 0; u < a.batch * a.heads; ++u) exact_forward(a, u / a.heads, u % a.heads);
}

void attention_exact_backward_cpu(const AttentionBackwardArgs& a) {
  if (!a.d_bias.empty()) {  // a thread adds up all sequences of a head
#pragma omp parallel for num_threads(a.threads) schedule(dynamic, 1)
    for (int64_t kv = 0; kv < a.kv_heads; ++kv) {
      const int64_t group = a.heads / a.kv_heads;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) set_zero(a.d_bias.row<double>(h), a.d_bias.cols);
      for (int64_t b = 0; b < a.batch; ++b) exact_backward(a, b, kv);
    }
    return;
  }
#pragma omp parallel for num_threads(a.threads) schedule(dynamic, 1)
  for (int64_t u = 0; u < a.batch * a.kv_heads; ++u) exact_backward(a, u / a.kv_heads, u % a.kv_heads);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
