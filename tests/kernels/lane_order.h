// The order of a sum in reduction lanes, written a second time for the tests: one element and one rounding at a time.
#pragma once

#include "kernels/dispatch.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/matrix_buffer.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainyard::test {

inline double rounded(DType t, double v) { return t == DType::f64 ? v : static_cast<double>(static_cast<float>(v)); }

enum class LaneOrder { tree, left_fold };
inline LaneOrder order_of(std::size_t lanes) {
  return (lanes & (lanes - 1)) == 0 ? LaneOrder::tree : LaneOrder::left_fold;
}

// Adds the sums of lanes (f32 or f64 values).
inline double add_lanes(DType t, std::vector<double> v, LaneOrder order) {
  if (order == LaneOrder::left_fold) {
    double sum = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) sum = rounded(t, sum + v[i]);
    return sum;
  }
  while (v.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i < v.size(); i += 2) next.push_back(rounded(t, v[i] + v[i + 1]));
    v = next;
  }
  return v[0];
}

// The factors of one part: its contribution to an element is the sum of left[k] * right[k].
struct Factors {
  std::vector<double> left, right;
};

// The lane sums of one element, as the active instruction-set path computes them from operands of type `in`.
inline std::vector<double> lane_sums(DType in, const std::vector<Factors>& parts, std::int64_t lanes) {
  const auto isa = kernels::active_isa();
  const bool fused = kernels::base_of(isa) != kernels::Isa::baseline;
  const bool tiles = in == DType::bf16 && (isa == kernels::Isa::amx || isa == kernels::Isa::emulated_amx);
  const bool pairs = in == DType::bf16 && kernels::base_of(isa) != isa && !tiles;
  const auto t = accumulation(in);
  std::vector<double> sums;
  for (std::int64_t l = 0; l < lanes; ++l) {
    double lane = 0;
    bool first = true;
    for (const auto& p : parts) {
      const auto slice = static_cast<std::int64_t>(p.left.size()) / lanes, end = (l + 1) * slice;
      const auto most = t == DType::f64 ? slice : plan::gemm_block_k;
      for (std::int64_t from = l * slice; from < end; from += most) {
        const auto stop = static_cast<std::size_t>(std::min(end, from + most));
        double block = 0;
        for (auto k = static_cast<std::size_t>(from); tiles && k < stop; k += 32) {  // even and odd steps apart
          float sum[2] = {0, 0};
          for (auto step = k; step < std::min(stop, k + 32); ++step)
            sum[(step - k) % 2] =
                std::fma(static_cast<float>(p.left[step]), static_cast<float>(p.right[step]), sum[(step - k) % 2]);
          block = rounded(t, block + rounded(t, static_cast<double>(sum[0]) + static_cast<double>(sum[1])));
        }
        // The second step of a pair comes first.
        for (auto k = static_cast<std::size_t>(from); pairs && k < stop; k += 2)
          for (auto step : {k + 1, k})
            if (step < stop)
              block = std::fma(static_cast<float>(p.left[step]), static_cast<float>(p.right[step]),
                               static_cast<float>(block));
        for (auto k = static_cast<std::size_t>(from); !pairs && !tiles && k < stop; ++k) {
          if (t == DType::f64) block += p.left[k] * p.right[k];
          else if (fused)
            block = std::fma(static_cast<float>(p.left[k]), static_cast<float>(p.right[k]), static_cast<float>(block));
          else block = rounded(t, rounded(t, p.left[k] * p.right[k]) + block);
        }
        lane = first ? block : rounded(t, lane + block);
        first = false;
      }
    }
    sums.push_back(lane);
  }
  return sums;
}

}  // namespace trainyard::test
