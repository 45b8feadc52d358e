// Compares matrix products with plain double sums: every dtype, transposition, path and thread count.
#include "kernels/gemm/gemm.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/matrix_buffer.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <array>

namespace trainyard::test {
namespace gemm_test {

using kernels::Accumulate;
using kernels::Transpose;

struct Case {
  DType in, out;
};
const Case cases[] = {{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16},
                      {DType::f64, DType::f64}, {DType::f16, DType::f32},  {DType::f16, DType::f16}};
const std::int64_t shapes[][3] = {{1, 1, 1},     {7, 5, 3},    {14, 32, 16}, {85, 33, 385},
                                  {29, 97, 800}, {2, 2051, 5}, {2020, 3, 9}};

void check(const Case& t, std::int64_t m, std::int64_t n, std::int64_t k, Transpose ta, Transpose tb, Accumulate add) {
  MatrixBuffer a(t.in, ta == Transpose::yes ? k : m, ta == Transpose::yes ? m : k, 3),
      b(t.in, tb == Transpose::yes ? n : k, tb == Transpose::yes ? k : n, 1);
  a.fill(1), b.fill(2);
  MatrixBuffer before(t.out, m, n, 2);
  if (add == Accumulate::yes) before.fill(3);
  std::vector<double> left(static_cast<std::size_t>(m * k)),
      right(static_cast<std::size_t>(n * k));  // op(a), op(b) transposed: rows of k
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t i = 0; i < m; ++i)
      left[static_cast<std::size_t>(i * k + p)] = ta == Transpose::yes ? a(p, i) : a(i, p);
    for (std::int64_t j = 0; j < n; ++j)
      right[static_cast<std::size_t>(j * k + p)] = tb == Transpose::yes ? b(j, p) : b(p, j);
  }
  std::vector<char> first;
  for (int threads = 1; threads <= 4; ++threads) {
    auto c = before;
    Bench bench(threads);
    kernels::gemm(*bench,
                  {.a = a.view(), .b = b.view(), .trans_a = ta, .trans_b = tb, .c = c.view(), .accumulate = add});
    ASSERT_TRUE(c.gap_untouched());
    ASSERT_LE(bench.arena.peak_bytes(), plan::gemm_scratch_bytes(m, n, k, base::is_narrow(t.out)));
    if (threads > 1) {
      ASSERT_EQ(c.bytes, first) << "bits differ on " << threads << " threads";
      continue;
    }
    first = c.bytes;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = add == Accumulate::yes ? before(i, j) : 0, size = std::abs(sum);
        for (std::int64_t p = 0; p < k; ++p) {
          const double term = left[static_cast<std::size_t>(i * k + p)] * right[static_cast<std::size_t>(j * k + p)];
          sum += term, size += std::abs(term);
        }
        const double bound = rounding(accumulation(t.in)) * size + of_store(t.out, sum);
        ASSERT_LE(std::abs(c(i, j) - sum), bound) << i << "," << j << " of " << m << "x" << n << "x" << k;
      }
  }
}

TEST(Gemm, EqualsPlainSumsOnEveryPath) {
  on_every_path([] {
    for (const auto& t : cases)
      for (const auto& s : shapes)
        for (auto ta : {Transpose::no, Transpose::yes})
          for (auto tb : {Transpose::no, Transpose::yes}) check(t, s[0], s[1], s[2], ta, tb, Accumulate::no);
  });
}

TEST(Gemm, AccumulatesOnEveryPath) {
  on_every_path([] {
    for (auto t : {DType::f32, DType::f64})
      for (const auto& s : shapes) check({t, t}, s[0], s[1], s[2], Transpose::no, Transpose::no, Accumulate::yes);
  });
}

// Panels with any number of rows at the edge, of one column vector and of more.
TEST(Gemm, EveryNumberOfRowsAtTheEdge) {
  on_every_path([] {
    for (const auto& t : cases)
      for (std::int64_t m = 1; m <= 34; ++m)
        for (const std::int64_t n : {32, 37}) {
          const bool adds = !base::is_narrow(t.in) && n == 37;
          check(t, m, n, m % 3 == 1 ? 390 : 6, Transpose::no, Transpose::no, adds ? Accumulate::yes : Accumulate::no);
        }
  });
}

// More threads than tasks, or than owners of tasks, and coprime numbers of both. Several chunks, so that counters of
// tasks are used again in the next chunk but one. If a task were left out or done twice, bits would differ.
TEST(Gemm, TeamsOfAnySize) {
  on_every_path([] {
    struct {
      Case type;
      std::int64_t m, n, k;
    } const products[] = {{{DType::f32, DType::f32}, 700, 1400, 1200},
                          {{DType::f32, DType::f32}, 900, 100, 1200},
                          {{DType::bf16, DType::bf16}, 60, 130, 1200},
                          {{DType::bf16, DType::f32}, 15, 33, 2400},
                          {{DType::f16, DType::f16}, 60, 130, 1200}};
    for (const auto& [t, m, n, k] : products) {
      MatrixBuffer a(t.in, m, k), b(t.in, k, n), expected(t.out, m, n);
      a.fill(1), b.fill(2);
      for (const int threads : {1, 5, 63, 64, 65, 131}) {
        MatrixBuffer c(t.out, m, n, 3);
        Bench bench(threads);
        kernels::gemm(
            *bench, {.a = a.view(), .b = b.view(), .trans_a = Transpose::no, .trans_b = Transpose::no, .c = c.view()});
        if (threads == 1) expected = c;
        else ASSERT_EQ(c.bytes, expected.bytes) << threads << " threads, " << m << "x" << n << "x" << k;
      }
    }
  });
}

TEST(Gemm, RefusesShapesThatDoNotMeet) {
  Bench bench(1);
  MatrixBuffer a(DType::f32, 4, 5), b(DType::f32, 6, 3), c(DType::f32, 4, 3);
  EXPECT_ANY_THROW(kernels::gemm(
      *bench, {.a = a.view(), .b = b.view(), .trans_a = Transpose::no, .trans_b = Transpose::no, .c = c.view()}));
}

// Memory that is followed by an inaccessible page: a read beyond its `bytes` crashes.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size_ - page, page, PROT_NONE);
    data = base_ + size_ - page - bytes;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, size_); }
  char* data;

 private:
  char* base_;
  std::size_t size_;
};

// Operands are packed by whole registers, but never beyond the last row.
TEST(Gemm, ReadsNothingBehindItsOperands) {
  on_every_path([] {
    for (const auto dtype : {DType::f32, DType::bf16, DType::f16})
      for (const auto& s : {std::array<std::int64_t, 3>{15, 20, 33}, {14, 32, 64}, {30, 47, 17}, {3, 5, 2}})
        for (const bool ta : {false, true})
          for (const bool tb : {false, true}) {
            const auto [m, n, k] = s;
            const auto size = static_cast<std::size_t>(base::size_of(dtype));
            Guarded a(static_cast<std::size_t>(m * k) * size), b(static_cast<std::size_t>(k * n) * size),
                c(static_cast<std::size_t>(m * n) * sizeof(float));
            Bench bench(2);
            kernels::gemm(*bench, {.a = {a.data, dtype, {ta ? k : m, ta ? m : k}},
                                   .b = {b.data, dtype, {tb ? n : k, tb ? k : n}},
                                   .trans_a = ta ? Transpose::yes : Transpose::no,
                                   .trans_b = tb ? Transpose::yes : Transpose::no,
                                   .c = {c.data, DType::f32, {m, n}}});
            for (std::int64_t i = 0; i < m * n; ++i) ASSERT_EQ(reinterpret_cast<float*>(c.data)[i], 0.0f);
          }
  });
}

}  // namespace gemm_test
}  // namespace trainyard::test
