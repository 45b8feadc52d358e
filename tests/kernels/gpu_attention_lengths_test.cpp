// Compares the GPU's attention to the keys of another sequence, and with a bias of positions, with the CPU kernels.
#include "kernels/relative_positions/relative_positions.h"
#include "libtrain/plan/spec/relative_buckets.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_attention_case.h"

#include <gtest/gtest.h>

#include <random>

namespace trainyard::test {
namespace {

AttentionCase pair_of(std::int64_t T, std::int64_t keys, std::int64_t d, bool biased) {
  AttentionCase c;
  c.T = T, c.keys = keys, c.d = d, c.causal = false, c.biased = biased;
  c.seed = static_cast<std::uint64_t>(1000 * T + keys);
  return c;
}

// Lengths beside the side of a tile, grouped heads, dropout, several ranges of keys, and queries that see nothing.
TEST(GpuAttentionLengths, EqualTheCpu) {
  const std::int64_t lengths[][2] = {{1, 17}, {17, 1}, {63, 65}, {65, 63}, {64, 130}, {130, 64}, {130, 17}, {1, 130}};
  for (std::int64_t n = 0; n < std::ssize(lengths); ++n) {
    auto c = pair_of(lengths[n][0], lengths[n][1], 12, n % 2 == 0);
    c.kv = 1 + n % 3 % 2, c.heads = c.kv * (1 + n % 2), c.dropout = n % 4 == 2 ? 0.25 : 0;
    c.documents = n % 3 != 0, c.padded = n % 2 == 0;
    equals_the_cpu(c, Units::plain, all);
    for (const std::int64_t d : {64, 128}) {
      c.d = d, c.biased = d == 64 || n % 2 == 0;
      equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
    }
    if (HasFatalFailure()) return;
  }
}

// The attention of a decoder and of an encoder to their own tokens: causal or not, with documents, windows, lists and
// caps.
TEST(GpuAttentionLengths, BiasesEqualTheCpu) {
  for (int n = 0; n < 8; ++n) {
    auto c = pair_of(n % 2 == 0 ? 130 : 65, 0, 64, true);
    c.causal = n % 4 != 2, c.heads = 2, c.kv = 1 + n % 2, c.documents = n % 3 == 1, c.padded = n == 5;
    c.window = n == 3 || n == 6 ? 40 : 0, c.list_heads = n == 4 || n == 7 ? 2 : 0, c.share = 0.6;
    c.softcap = n >= 4 ? 1.5 : 0, c.dropout = n == 1 || n == 4 ? 0.25 : 0;
    equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
    c.d = n % 2 == 0 ? 128 : 12;
    equals_the_cpu(c, n % 2 == 0 ? Units::tensor_cores : Units::plain,
                   n % 2 == 0 ? std::vector{DType::bf16} : std::vector{DType::f32, DType::f64});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttentionLengths, RandomOnes) {
  std::mt19937_64 random(13);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int n = 0; n < (by_day() ? 12 : 100); ++n) {
    const bool tensor_cores = n % 3 == 0;
    const auto T = 1 + below(200);
    auto c = pair_of(T, below(4) == 0 ? 0 : 1 + below(200), tensor_cores ? 64 : 1 + below(20), below(3) > 0);
    c.kv = 1 + below(2), c.heads = c.kv * (1 + below(2)), c.dropout = below(4) == 0 ? 0.2 : 0;
    c.documents = below(2) == 0, c.padded = below(3) == 0, c.softcap = below(4) == 0 ? 1.5 : 0, c.seed = random();
    if (c.keys == 0) {
      c.causal = below(2) == 0, c.window = below(3) == 0 ? 1 + below(static_cast<std::uint64_t>(T)) : 0;
      c.list_heads = below(2) == 0 ? c.heads : 0;
    }
    if (tensor_cores) equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
    else equals_the_cpu(c, Units::plain, {n % 3 == 1 ? DType::f64 : DType::f32});
    if (HasFatalFailure()) return;
  }
}

// A device of compute capability 9.0 must not take the kernels for Hopper, which know neither.
TEST(GpuAttentionLengths, OfHopperTakeOtherKernels) {
  const Capability capability(hopper);
  auto c = pair_of(100, 0, 64, true);
  c.causal = true, c.heads = 2;
  equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
  equals_the_cpu(pair_of(70, 100, 128, false), Units::tensor_cores, {DType::bf16});
}

TEST(GpuAttentionLengths, TwoRunsGiveTheSameBits) {
  for (const auto& [units, d] : {std::pair{Units::plain, 12}, {Units::tensor_cores, 64}}) {
    auto c = pair_of(130, 70, d, true);
    c.heads = 4, c.kv = 2, c.dropout = 0.25;
    Problem once(c, DType::bf16, units), again(c, DType::bf16, units);
    once.run(Place::Kind::gpu), again.run(Place::Kind::gpu);
    same_bits(once, again);
  }
}

TEST(GpuAttentionLengths, AsManyKeysAsQueriesChangesNoBit) {
  for (const auto& [units, d] : {std::pair{Units::plain, 12}, {Units::tensor_cores, 64}})
    for (const bool causal : {true, false}) {
      auto c = pair_of(130, 0, d, false);
      c.causal = causal, c.heads = 2;
      auto said = c;
      said.keys = 130;
      Problem a(c, DType::bf16, units), b(said, DType::bf16, units);
      a.run(Place::Kind::gpu), b.run(Place::Kind::gpu);
      same_bits(a, b);
    }
}

TEST(GpuRelativePositions, HaveTheBitsOfTheCpu) {
  for (const bool bidirectional : {true, false})
    for (const auto& [queries, keys] : {std::pair{1, 1}, {17, 1}, {130, 130}, {63, 400}, {900, 63}}) {
      const plan::RelativeBuckets buckets({32, 128, bidirectional});
      auto borders = buckets.borders();
      const std::int64_t side = std::ssize(borders), rows = bidirectional ? 2 * side : side;
      const std::int64_t distances = queries + keys - 1;
      compare(
          [&, queries = queries, keys = keys](Place& place, DType t) {
            MatrixBuffer table(t, rows, 3, 5), bias(accumulation(t), 3, distances, 2);
            MatrixBuffer d_bias(accumulation(t), 3, distances, 1), set(accumulation(t), rows, 3, 4), added(set);
            table.fill(1), d_bias.fill(2), added.fill(3);
            const kernels::RelativePositions positions{
                .borders = place(borders, {1, side}), .bidirectional = bidirectional, .queries = queries, .keys = keys};
            const auto sums = place(d_bias);
            kernels::relative_positions_expand(place.exec(), positions, place(table), place(bias));
            kernels::relative_positions_fold(place.exec(), positions, sums, place(set), kernels::FoldInto::overwrite);
            kernels::relative_positions_fold(place.exec(), positions, sums, place(added), kernels::FoldInto::add);
            place.fetch();
            return Outputs{bias, set, added};
          },
          Same::bits, all);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
