// Chains of multiply-adds that use only registers. Included only by *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/micro_tile_cpu.h"
#include "kernels/peak/peak_args.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Twelve chains, more than any core needs to hide the latency of its units (two units of four cycles: eight).
constexpr int chains = 12;

// Runs sum = step(sum) in each chain, a.rounds times on each thread. Returns the number of steps, counted for each
// lane.
template <class Step> int64_t run_chains(const PeakArgs& a, const Step& step) {
  float total = 0;
#pragma omp parallel for num_threads(a.threads) schedule(static) reduction(+ : total)
  for (int t = 0; t < a.threads; ++t) {
    Vec sums[chains];
#pragma GCC unroll 16
    for (int i = 0; i < chains; ++i) sums[i] = broadcast(static_cast<float>(t + i));
    for (int64_t r = 0; r < a.rounds; ++r) {
#pragma GCC unroll 16
      for (int i = 0; i < chains; ++i) sums[i] = step(sums[i]);
    }
    Vec all = sums[0];
#pragma GCC unroll 16
    for (int i = 1; i < chains; ++i) all = plus(all, sums[i]);
    float out[lanes];
    put(out, all);
    total += out[0];
  }
  volatile float seen = total;  // keeps the compiler from removing the work
  static_cast<void>(seen);
  return int64_t{chains} * lanes * a.rounds * a.threads;
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
