// The cost of a traced span to its thread: without a recorder, with one, and when there is no room left.
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/thread.h"
#include "libtrain/base/trace_kinds.h"

#include <benchmark/benchmark.h>

using namespace trainyard;

namespace {

void scope(benchmark::State& state) {
  std::int64_t i = 0;
  for (auto _ : state) {
    const base::TraceScope span(base::traced::action, "forward", {1, 2, 3, ++i, 5, 6});
    benchmark::ClobberMemory();
  }
}

void nobody_records(benchmark::State& state) {
  base::start_thread("other", [] {}).join();  // as in a run: the thread belongs to a family of threads
  scope(state);
}
void records(benchmark::State& state) {
  base::TraceRecorder recorder(static_cast<std::size_t>(state.max_iterations), "own");
  recorder.resume();
  scope(state);
}
void without_room(benchmark::State& state) {
  base::TraceRecorder recorder(1, "own");
  recorder.resume();
  scope(state);
}
void clock_twice(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(base::steady_seconds() - base::steady_seconds());
}

BENCHMARK(nobody_records);
BENCHMARK(records);
BENCHMARK(without_room);
BENCHMARK(clock_twice);

}  // namespace
