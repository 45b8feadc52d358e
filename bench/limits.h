// What this machine can do: the ceilings of profile-comm that figures are divided by.
#pragma once

#include "libtrain/base/view.h"

#include <benchmark/benchmark.h>

#include <string>

namespace trainyard::bench {

// A ceiling by its name in a profile ("memory.copy"): the value in the file that TRAINYARD_PROFILE names, else measured
// now, once in a process, so that figure and limit are of the same run. Throws where the file has no such value.
double limit(const std::string& name, int threads, base::Device device = {});

// FLOP/s of multiply-adds in registers, as products of that type have them.
inline double product_limit(int threads, base::DType dtype = base::DType::f32) {
  return limit(dtype == base::DType::bf16 ? "arithmetic.bf16" : "arithmetic.f32", threads);
}
inline double copy_limit(int threads) { return limit("memory.copy", threads); }  // bytes read and written a second
// Bytes a second: written to a file in `folder` until durable; read back from the page cache, where checkpoints just
// written are.
double write_limit(const std::string& folder);
double cached_read_limit(const std::string& folder);

// `work` an iteration (FLOP or bytes) as a rate, and as a fraction of `limit` (the same unit a second).
inline void report(benchmark::State& state, const char* unit, double work, double limit) {
  state.counters[unit] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_limit"] = benchmark::Counter(work / limit, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace trainyard::bench
