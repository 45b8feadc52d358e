// Compares attention of one token to cached keys and values with the definition in double.
#include "kernels/cached_attention/cached_attention.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace cached_attention_test {

TEST(CachedAttention, EqualsTheDefinition) {
  const std::int64_t shapes[][4] = {{1, 1, 1, 1}, {9, 4, 2, 5}, {70, 6, 1, 40}, {33, 3, 3, 16}};
  for (const auto& s : shapes) {
    const auto t = s[0], heads = s[1], kv = s[2], d = s[3];
    const bool biased = t != 33;
    const double scale = 0.8, cap = t == 70 || t == 9 ? 1.25 : 0;
    sweep(
        [&](tensor::Exec& exec, DType type) {
          MatrixBuffer q(type, 1, heads * d), k(type, t, kv * d, 3), v(type, t, kv * d, 1), out(type, 1, heads * d);
          MatrixBuffer bias(accumulation(type), heads, t, 2);
          q.fill(1), k.fill(2), v.fill(3), bias.fill(4);
          kernels::cached_attention(exec, {.q = q.view(),
                                           .k = k.view(),
                                           .v = v.view(),
                                           .heads = heads,
                                           .kv_heads = kv,
                                           .scale = scale,
                                           .out = out.view(),
                                           .softcap = cap,
                                           .bias = biased ? bias.view() : base::View{}});
          return std::vector<MatrixBuffer>{out};
        },
        [&](DType type, const std::vector<MatrixBuffer>& got) {
          MatrixBuffer q(type, 1, heads * d), k(type, t, kv * d), v(type, t, kv * d),
              bias(accumulation(type), heads, t);
          q.fill(1), k.fill(2), v.fill(3), bias.fill(4);
          for (std::int64_t h = 0; h < heads; ++h) {
            const auto column = h / (heads / kv) * d;
            std::vector<double> w;
            double sum = 0;
            for (std::int64_t j = 0; j < t; ++j) {
              double score = 0;
              for (std::int64_t c = 0; c < d; ++c) score += q(0, h * d + c) * k(j, column + c);
              const double capped = cap == 0 ? scale * score : cap * std::tanh(scale * score / cap);
              w.push_back(std::exp(capped + (biased ? bias(h, j) : 0)));
              sum += w.back();
            }
            for (std::int64_t c = 0; c < d; ++c) {
              double want = 0;
              for (std::int64_t j = 0; j < t; ++j) want += w[static_cast<std::size_t>(j)] / sum * v(j, column + c);
              ASSERT_TRUE(near(type, got[0](0, h * d + c), want, 4.0))
                  << "head " << h << " channel " << c << " of " << t;
            }
          }
        });
  }
}

}  // namespace cached_attention_test
}  // namespace trainyard::test
