// What this machine can do: the ceilings of profile-comm, by which figures are divided.
#pragma once

#include "libtrain/base/view.h"

#include <benchmark/benchmark.h>

#include <string>

namespace trainyard::bench {

// A ceiling by its name in a profile ("memory.copy"). The value comes from the file that TRAINYARD_PROFILE names.
// Otherwise it is measured now, once in a process, so that figure and limit are of the same run. Throws if the file has
// no such value.
double limit(const std::string& name, int threads, base::Device device = {});

// FLOP/s of multiply-adds in registers, as products of that dtype use them.
inline double product_limit(int threads, base::DType dtype = base::DType::f32) {
  return limit(dtype == base::DType::bf16 ? "arithmetic.bf16" : "arithmetic.f32", threads);
}
inline double copy_limit(int threads) { return limit("memory.copy", threads); }  // bytes read and written a second
// Bytes a second. The first: written to a file in `folder` until durable. The second: read back from the page cache,
// where checkpoints that were just written are.
double write_limit(const std::string& folder);
double cached_read_limit(const std::string& folder);

// Reports `work` an iteration (FLOP or bytes) as a rate, and as a fraction of `limit` (the same unit a second).
inline void report(benchmark::State& state, const char* unit, double work, double limit) {
  state.counters[unit] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_limit"] = benchmark::Counter(work / limit, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace trainyard::bench
