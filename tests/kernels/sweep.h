// sweep(): runs one element-wise operation on every dtype, instruction-set path and thread count, with poisoned
// outputs.
#pragma once

#include "tests/kernels/matrix_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard::test {

inline const DType working_types[] = {DType::f32, DType::bf16, DType::f64, DType::f16};

// got - want| within the rounding of `scale` (the magnitude of the sum's terms) and of one store of `want` in t.
inline ::testing::AssertionResult near(DType t, double got, double want, double scale) {
  const double bound = rounding(accumulation(t)) * std::max(scale, std::abs(want)) + of_store(t, want) + 1e-40;
  if (std::abs(got - want) <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << base::name_of(t) << ": " << got << " is not " << want << " within " << bound;
}

// run(exec, dtype) returns the outputs as MatrixBuffers. They must have the same bits for 1 to 4 threads, and unchanged
// gaps. check(dtype, outputs) compares them with the reference.
template <class Run, class Check> void sweep(const Run& run, const Check& check) {
  on_every_path([&] {
    for (auto t : working_types) {
      std::vector<MatrixBuffer> first;
      for (int threads = 1; threads <= 4; ++threads) {
        Bench bench(threads);
        auto out = run(*bench, t);
        for (const auto& o : out) ASSERT_TRUE(o.gap_untouched()) << base::name_of(t);
        if (threads == 1) {
          first = std::move(out);
          check(t, first);
          if (::testing::Test::HasFatalFailure()) return;
          continue;
        }
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_EQ(out[i].bytes, first[i].bytes)
              << base::name_of(t) << ": bits of output " << i << " differ on " << threads << " threads";
      }
    }
  });
}

inline base::View vector_view(std::vector<std::int32_t>& v, std::int64_t rows) {
  return base::View::of(v.data(), {rows, static_cast<std::int64_t>(v.size()) / rows});
}

}  // namespace trainyard::test
