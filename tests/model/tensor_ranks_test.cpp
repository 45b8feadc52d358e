// Tensor parallelism: the same bits as one rank, the predicted memory, collectives and their adjoints.
#include "tests/model/small_model.h"
#include "tests/model/tensor_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>

namespace trainyard::test {
namespace tensor_ranks_test {

using namespace tensor_bits;

TEST(TensorRanks, SameBitsAndPredictedMemory) {
  const std::int64_t b = 2, t = 128;
  for (const auto& base : {with_dropout(small_gpt2()), with_dropout(small_sandwich()), small_llama(),
                           with_dropout(small_post()), with_dropout(small_bert())})
    for (const auto dtype : {DType::f32, DType::bf16})
      for (const bool tied : {false, true}) {
        auto m = eight_heads(base, 4);
        m.tied = tied;
        if (tied) m.biases = plan::Biases::on;
        const Batch batch(formula_windows(m.vocabulary, 0, b, t, true), true, 40);
        const plan::MicroShape shape{{b, t}, {dtype, 1}};
        const auto want = one_rank(m, shape, batch);
        for (const int ranks : {2, 4})
          for (const bool rows : {false, true})
            expect_same(m, shape, batch, want,
                        {ranks, rows, plan::recomputations[static_cast<std::size_t>(ranks / 2 + rows + tied) % 3]});
      }
}

// Smoothed labels: in pieces of neighbouring lanes, and lane by lane where their number is no power of two. The last of
// four ranks has no logical row of the vocabulary.
TEST(TensorRanks, SmoothedLabels) {
  for (const auto& base : {small_gpt2(), with_dropout(small_sandwich()), small_bert()})
    for (const std::int64_t lanes : {4, 3})
      for (const auto dtype : {DType::f32, DType::bf16, DType::f64}) {
        if (dtype == (lanes == 3 ? DType::bf16 : DType::f64)) continue;
        auto m = eight_heads(base, lanes);
        m.layers = 1;
        if (lanes == 3) m.hidden = 48, m.heads = 6, m.kv_heads = 3;
        const Batch batch(formula_windows(m.vocabulary, 0, 2, 128, true), true, 40);
        plan::MicroShape shape{{2, 128}, {dtype, 1}};
        const auto plain = one_rank(m, shape, batch);
        shape.label_smoothing = true;
        const auto want = one_rank(m, shape, batch);
        EXPECT_NE(want.loss, plain.loss);
        EXPECT_TRUE(same(want.evaluated, plain.evaluated)) << "an evaluation smooths nothing";
        for (const int ranks : {2, 3, 4})
          if (lanes % ranks == 0)
            expect_same(m, shape, batch, want, {ranks, lanes == 4 && dtype == DType::bf16, plan::Recompute::none});
      }
}

// Two towers with sources of their own length, and with tables of relative positions whose heads ranks divide.
TEST(TensorRanks, Encoders) {
  const std::int64_t b = 2, t = 64, source = 128;
  for (const auto& base : {with_encoder(with_inner_dropout(small_gpt2())), with_inner_dropout(small_relative())})
    for (const auto dtype : {DType::f32, DType::bf16}) {
      auto m = eight_heads(base, 4);
      Batch batch(formula_windows(m.vocabulary, 0, b, t, true), true, 40);
      batch.add_sources(formula_windows(m.vocabulary, 5, b, source, true), true);
      const plan::MicroShape shape{{b, t}, {dtype, 1}, source};
      const auto want = one_rank(m, shape, batch);
      for (const int ranks : {2, 4})
        for (const bool rows : {false, true}) {
          if (rows && ranks == 4) continue;  // whole blocks of 64 rows are divided
          expect_same(m, shape, batch, want,
                      {ranks, rows, plan::recomputations[static_cast<std::size_t>(ranks / 2 + rows) % 3]});
        }
    }
}

TEST(TensorRanks, Small) { small(small_gpt2()); }
TEST(TensorRanks, SmallBert) { small(small_bert()); }
TEST(TensorRanks, SmallInsidePost) { small(small_inside_post()); }
TEST(TensorRanks, SmallParallel) { small(small_parallel()); }

// What today's models vary of attention: sizes of heads, their norms, biases of some products. Heads are as wide as
// hidden / heads, wider and narrower.
std::vector<plan::ModelConfig> of_today(std::int64_t lanes) {
  std::vector<plan::ModelConfig> all;
  for (const auto norm : {plan::QkNorm::none, plan::QkNorm::head, plan::QkNorm::width})
    for (const std::int64_t size : {8, 20, 2}) {
      auto& m = all.emplace_back(eight_heads(small_llama(), lanes));
      if (all.size() % 2 == 0) m = with_dropout(m);
      m.name = fmt::format("heads of {}, norms {}", size, static_cast<int>(norm));
      m.layers = 1, m.head_size = size, m.qk_norm = norm;
      m.biases = size == 20 ? plan::Biases::qkv : size == 2 ? plan::Biases::attention : plan::Biases::off;
      if (size == 20) m.rotary = {.scaling = plan::RotaryScaling::yarn, .factor = 4, .original = 32, .fraction = 0.5};
      m.query_scale = size == 2 ? 0.4 : 0;
    }
  return all;
}
TEST(TensorRanks, AttentionOfTodaysModels) {
  for (const auto& m : of_today(4))
    for (const auto dtype : {DType::f32, DType::bf16}) {
      const Batch batch(formula_windows(m.vocabulary, 0, 2, 64, true), true, 40);
      const plan::MicroShape shape{{2, 64}, {dtype, 1}};
      const auto want = one_rank(m, shape, batch);
      for (const int ranks : {2, 4})
        for (const bool rows : {false, true}) {
          if (rows && ranks == 4) continue;  // whole blocks of 64 rows are divided
          expect_same(m, shape, batch, want,
                      {ranks, rows, plan::recomputations[static_cast<std::size_t>(ranks / 2 + rows) % 3]});
        }
      auto full = shape;
      full.threads = 3;
      EXPECT_TRUE(one_rank(m, full, batch).gradients == want.gradients) << m.name;
    }
}
// Three lanes, and three lanes of six on each of two ranks, are added from left to right.
TEST(TensorRanks, NormsOfHeadsInOddLanes) {
  for (const auto norm : {plan::QkNorm::head, plan::QkNorm::width}) {
    auto m = eight_heads(small_llama(), 6);
    m.layers = 1, m.hidden = 48, m.heads = 12, m.kv_heads = 6, m.ffn = 96, m.qk_norm = norm;
    const Batch batch(formula_windows(m.vocabulary, 0, 2, 128, true), true);
    const plan::MicroShape shape{{2, 128}, {DType::f32, 1}};
    const auto want = one_rank(m, shape, batch);
    for (const bool rows : {false, true}) expect_same(m, shape, batch, want, {2, rows, plan::Recompute::layers});
    expect_same(m, shape, batch, want, {3, false, plan::Recompute::selective});
    auto other = m;  // the comparison must be able to fail
    other.lanes = 1;
    EXPECT_NE(one_rank(other, shape, batch).gradients, want.gradients);
  }
}
TEST(TensorRanks, SmallNormsOfHeads) {
  auto m = small_llama();
  m.qk_norm = plan::QkNorm::head, m.head_size = 6;
  small(m);
  m.qk_norm = plan::QkNorm::width;
  small(m);
}

// Here attention is the last branch, whose output nobody reads in the second forward.
TEST(TensorRanks, AttentionLast) {
  auto m = with_dropout(eight_heads(small_gpt2(), 4));
  m.branches = {"ffn", "attention"};
  const Batch batch(formula_windows(m.vocabulary, 0, 2, 64, true), true, 40);
  const plan::MicroShape shape = Runner::on_device({{2, 64}, {DType::f32, 1}});
  const auto want = one_rank(m, shape, batch);
  for (const bool rows : {false, true})
    for (const auto recompute : {plan::Recompute::selective, plan::Recompute::layers})
      expect_same(m, shape, batch, want, {2, rows, recompute});
}

// Tokens that are no multiple of 64, several chunks of the head, and an odd number of heads that are added from left to
// right.
TEST(TensorRanks, OddShapes) {
  auto m = eight_heads(small_gpt2(), 3);
  m.hidden = 48, m.heads = m.kv_heads = 3, m.ffn = 72, m.context = 301;
  const Batch batch(formula_windows(m.vocabulary, 0, 1, 301, true), true);
  const plan::MicroShape shape{{1, 301}, {DType::f32, 2}};
  expect_same(m, shape, batch, one_rank(m, shape, batch), {3, false, plan::Recompute::none});
  // Each of two ranks has three lanes of six, which are added from left to right.
  auto six = eight_heads(small_llama(), 6);
  six.hidden = 48, six.heads = 12, six.kv_heads = 6, six.ffn = 96;
  const Batch half(formula_windows(six.vocabulary, 0, 2, 128, true), true);
  for (const auto dtype : {DType::f32, DType::bf16})
    for (const bool rows : {false, true})
      expect_same(six, {2, 128, dtype, 1}, half, one_rank(six, {2, 128, dtype, 1}, half),
                  {2, rows, plan::Recompute::none});
  m.lanes = 1;  // the comparison must be able to fail
  EXPECT_NE(one_rank(m, shape, batch).gradients, one_rank(
                                                     [&] {
                                                       auto other = m;
                                                       other.lanes = 3;
                                                       return other;
                                                     }(),
                                                     shape, batch)
                                                     .gradients);
}

// Compares the gradients that two ranks make together with central differences of their loss in double precision.
void finite_differences(const plan::ModelConfig& m, bool rows) {
  constexpr int ranks = 2;
  plan::MicroShape shape{{2, 64}, {DType::f64, 1}};
  shape.tensor = ranks, shape.sequence_parallel = rows;
  const Batch batch(formula_windows(m.vocabulary, 0, 2, 64, true), true, 40);
  const auto topology = tensor_ranks(ranks);
  std::vector<std::unique_ptr<PlainStore>> stores;
  for (int r = 0; r < ranks; ++r) {
    stores.push_back(std::make_unique<PlainStore>(m, DType::f64, 3, topology, r));
    for (auto& flat_group : stores.back()->master)
      for (auto& x : flat_group) x *= 5;  // away from the initial values, so that every part matters
    stores.back()->publish();
  }
  const auto loss = [&] {
    std::vector<double> sums(ranks);
    comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
      Runner runner(m, shape);
      const TensorRank ground(rank, ranks, threads, m, shape, *runner.exec);
      runner.collectives = &ground.collectives;
      sums[static_cast<std::size_t>(rank)] = runner.train(*stores[static_cast<std::size_t>(rank)], batch).loss_sum;
    });
    EXPECT_EQ(sums[0], sums[1]);
    return sums[0];
  };
  std::mt19937_64 random(11);
  const auto& flat_groups = stores[0]->flat_groups;
  for (std::size_t u = 0; u < flat_groups.size(); ++u)
    for (std::size_t p = 0; p < flat_groups[u].parameters.size(); ++p) {
      const auto& parameter = flat_groups[u].parameters[p];
      const auto whole = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(parameter.count()));
      std::vector<double*> held;  // the element on each rank that holds it
      double analytic = 0;
      loss();
      for (int r = 0; r < ranks; ++r) {
        auto& store = *stores[static_cast<std::size_t>(r)];
        for (const auto& [at, element] : PlainStore::places(parameter, topology, r))
          if (element == whole) {
            held.push_back(&store.master[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + at)]);
            analytic = store.gradient_of(static_cast<int>(u), static_cast<int>(p), at);
          }
      }
      ASSERT_EQ(held.size(), parameter.sharded ? 1u : 2u) << parameter.name;
      const double x0 = *held[0], h = 2e-4;
      const auto at = [&](double offset) {
        for (auto* x : held) *x = x0 + offset;
        for (auto& store : stores) store->publish();
        return loss();
      };
      const double numeric = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      at(0);
      EXPECT_NEAR(analytic, numeric, 2e-6 * (std::abs(numeric) + 1)) << parameter.name << "[" << whole << "]";
    }
}

TEST(TensorRanks, FiniteDifferences) {
  auto gpt = with_dropout(eight_heads(small_gpt2(), 4)), llama = with_dropout(eight_heads(small_llama(), 4));
  gpt.hidden = llama.hidden = 32, gpt.layers = llama.layers = 1;
  finite_differences(gpt, false);
  finite_differences(llama, true);
  auto bert = with_dropout(eight_heads(small_bert(), 4));
  bert.hidden = 32, bert.layers = 1;
  finite_differences(bert, false);
  finite_differences(bert, true);
  for (const auto norm : {plan::QkNorm::head, plan::QkNorm::width}) {
    llama.qk_norm = norm, llama.head_size = 6, llama.norm_epsilon = 0.1;
    finite_differences(llama, norm == plan::QkNorm::head);
  }
}

// Checks <A x, y> = <x, A^T y> in f64: the ranks' x and y together are one vector each.
TEST(TensorRanks, CollectivesAndTheirAdjoints) {
  if (on_gpu()) GTEST_SKIP() << "in double, on the host";
  for (const int ranks : {2, 4})
    for (const bool rows : {false, true}) {
      auto m = eight_heads(small_gpt2(), 4);
      plan::MicroShape shape{{2, 128}, {DType::f64, 1}};
      shape.tensor = ranks, shape.sequence_parallel = rows;
      const auto n = shape.rows(), own = shape.own_rows(), h = m.hidden;
      std::vector<double> left(static_cast<std::size_t>(ranks)), right(static_cast<std::size_t>(ranks));
      comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
        const auto exec = tensor::Exec::caller(nullptr, 1);
        const TensorRank ground(rank, ranks, threads, m, shape, *exec);
        const auto random = [&](std::int64_t count, std::uint64_t seed) {
          std::mt19937_64 engine(seed);
          std::normal_distribution<double> normal(0, 1);
          std::vector<double> values(static_cast<std::size_t>(count));
          for (auto& v : values) v = normal(engine);
          return values;
        };
        const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
          double sum = 0;
          for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
          return sum;
        };
        // A gathers the ranks' hidden states: all tokens on each rank. A^T adds partial sums of all tokens. Without
        // sequence parallelism every rank has the same hidden states, so only the first rank counts them.
        auto x = random(own * h, rows ? static_cast<std::uint64_t>(rank) : 77),
             y = random(n * h, 100 + static_cast<std::uint64_t>(rank));
        std::vector<double> gathered(static_cast<std::size_t>(n * h)), summed(static_cast<std::size_t>(own * h));
        const auto all =
            ground.collectives.all_rows(base::View::of(x.data(), {own, h}), base::View::of(gathered.data(), {n, h}));
        const std::vector<double> ax(all.ptr<double>(), all.ptr<double>() + n * h);
        left[static_cast<std::size_t>(rank)] = dot(ax, y);
        ground.collectives.add_up(base::View::of(y.data(), {n, h}), {}, base::View::of(summed.data(), {own, h}));
        right[static_cast<std::size_t>(rank)] = rows || rank == 0 ? dot(x, summed) : 0;
      });
      double ax_y = 0, x_aty = 0;
      for (int r = 0; r < ranks; ++r)
        ax_y += left[static_cast<std::size_t>(r)], x_aty += right[static_cast<std::size_t>(r)];
      EXPECT_NEAR(ax_y, x_aty, 1e-9 * std::abs(ax_y) + 1e-9) << ranks << " ranks" << (rows ? ", rows shared" : "");
      EXPECT_GT(std::abs(ax_y), 1);
    }
}

std::vector<double> normal_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (auto& v : values) v = normal(engine);
  return values;
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Runs body(rank, collectives, own tokens, first own token, all tokens) on ranks with batch x 128 tokens. body returns
// its part of both sides of an equation. The result is the relative difference of the two sums over ranks.
template <class Body>
double apart(int ranks, std::int64_t lanes, std::int64_t hidden, std::int64_t batch, bool rows, const Body& body) {
  auto m = eight_heads(small_gpt2(), lanes);
  m.hidden = hidden, m.heads = m.kv_heads = hidden / 8;
  plan::MicroShape shape{{batch, 128}, {DType::f64, 1}};
  shape.tensor = ranks, shape.sequence_parallel = rows;
  std::vector<double> left(static_cast<std::size_t>(ranks)), right(left.size());
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    const auto exec = tensor::Exec::caller(nullptr, 1);
    const TensorRank ground(rank, ranks, threads, m, shape, *exec);
    const auto own = shape.own_rows(), first = rows ? rank * own : 0;
    std::tie(left[static_cast<std::size_t>(rank)], right[static_cast<std::size_t>(rank)]) =
        body(rank, ground.collectives, own, first, shape.rows());
  });
  const double a = std::accumulate(left.begin(), left.end(), 0.0), b = std::accumulate(right.begin(), right.end(), 0.0);
  EXPECT_GT(std::abs(a), 1);
  return std::abs(a - b) / std::abs(a);
}

// all_rows gives every rank the tokens of all ranks, bit for bit. Its adjoint is the sum over ranks for each token.
TEST(TensorRanks, AllRowsAlone) {
  if (on_gpu()) GTEST_SKIP() << "in double, on the host";
  constexpr std::int64_t h = 32;
  for (const int ranks : {2, 4}) {
    const double difference =
        apart(ranks, 4, h, 2, true,
              [&](int rank, const model::TensorCollectives& collectives, std::int64_t own, std::int64_t first,
                  std::int64_t n) {
                auto stream = normal_values(n * h, 5);
                std::vector<double> all(stream.size()), adjoint(static_cast<std::size_t>(own * h));
                const auto mine = base::View::of(stream.data() + first * h, {own, h});
                collectives.all_rows(mine, base::View::of(all.data(), {n, h}));
                EXPECT_EQ(all, stream) << "rank " << rank;
                for (int r = 0; r < ranks; ++r) {  // what rank r would add to the gradient of these tokens
                  const auto y = normal_values(n * h, 50 + static_cast<std::uint64_t>(r));
                  for (std::size_t i = 0; i < adjoint.size(); ++i)
                    adjoint[i] += y[i + static_cast<std::size_t>(first * h)];
                }
                return std::pair(dot(all, normal_values(n * h, 50 + static_cast<std::uint64_t>(rank))),
                                 dot({mine.ptr<double>(), adjoint.size()}, adjoint));
              });
    EXPECT_LT(difference, 1e-10);
  }
}

// merge: each element has its value on one rank. The adjoint gives the element's gradient to that rank and to no other.
TEST(TensorRanks, MergeAlone) {
  if (on_gpu()) GTEST_SKIP() << "in double, on the host";
  constexpr std::int64_t h = 32;
  for (const int ranks : {2, 4})
    for (const bool rows : {false, true}) {
      const double difference = apart(
          ranks, 4, h, 2, rows,
          [&](int rank, const model::TensorCollectives& collectives, std::int64_t own, std::int64_t first,
              std::int64_t n) {
            auto x = normal_values(n * h, 5);
            x[7] = -0.0, x[static_cast<std::size_t>(n * h - 3)] = -0.0;
            const auto stream = x, y = normal_values(n * h, 6);
            double right = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
              if (static_cast<int>(i * 7 / 3 % static_cast<std::size_t>(ranks)) == rank) right += x[i] * y[i];
              else x[i] = 0;
            }
            std::vector<double> merged(static_cast<std::size_t>(own * h));
            const auto values = base::View::of(x.data(), {n, h});
            const auto out = rows ? base::View::of(merged.data(), {own, h}) : values;
            collectives.merge(values, out);
            EXPECT_EQ(std::memcmp(out.data, stream.data() + first * h, merged.size() * sizeof(double)), 0)
                << "rank " << rank << (rows ? ", rows shared" : "");
            const bool counts = rows || rank == 0;
            return std::pair(
                counts ? dot({out.ptr<double>(), merged.size()}, {y.data() + first * h, merged.size()}) : 0, right);
          });
      EXPECT_LT(difference, 1e-10) << ranks << " ranks" << (rows ? ", rows shared" : "");
    }
}

// Six lanes are no power of two, so they are added from left to right. Each of two ranks sends the sum of each of its
// three lanes.
TEST(TensorRanks, AddingUpSeveralSumsOfEachRank) {
  if (on_gpu()) GTEST_SKIP() << "in double, on the host";
  constexpr int ranks = 2;
  constexpr std::int64_t h = 48, partials = 3;
  for (const bool rows : {false, true}) {
    const double difference = apart(
        ranks, 6, h, 2, rows,
        [&](int rank, const model::TensorCollectives& collectives, std::int64_t own, std::int64_t first,
            std::int64_t n) {
          const auto sums = [&](int r) { return normal_values(partials * n * h, 9 + static_cast<std::uint64_t>(r)); };
          auto mine = sums(rank);
          const auto kept = mine;
          std::vector<double> out(static_cast<std::size_t>(own * h)), expected(out.size());
          for (int r = 0; r < ranks; ++r) {
            const auto all = sums(r);
            for (std::int64_t l = 0; l < partials; ++l)
              for (std::size_t i = 0; i < expected.size(); ++i) {
                const double term = all[static_cast<std::size_t>((l * n + first) * h) + i];
                expected[i] = r == 0 && l == 0 ? term : expected[i] + term;
              }
          }
          collectives.add_up(base::View::of(mine.data(), {partials * n, h}), {}, base::View::of(out.data(), {own, h}));
          EXPECT_EQ(out, expected) << "rank " << rank << (rows ? ", rows shared" : "");
          const auto y = normal_values(n * h, 33);  // for the hidden states; all_rows gives it to every sum
          double right = 0;
          for (std::int64_t l = 0; l < partials; ++l) right += dot({kept.data() + l * n * h, y.size()}, y);
          return std::pair(rows || rank == 0 ? dot(out, {y.data() + first * h, out.size()}) : 0, right);
        });
    EXPECT_LT(difference, 1e-10);
  }
}

}  // namespace tensor_ranks_test
}  // namespace trainyard::test
