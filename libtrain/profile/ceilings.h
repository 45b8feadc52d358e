// Ceilings: what a rank's own memory, arithmetic and disk can do: the limits that benchmarks divide by, and the rates
// that a planner needs.
#pragma once

#include "libtrain/plan/model_config.h"
#include "libtrain/plan/profile.h"
#include "libtrain/profile/ranks.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::profile {

struct CeilingOptions {
  plan::ModelConfig model;  // whose products and attention
  int tensor = 1;           // ranks that share its layers: a rank's part is measured
  std::int64_t micro_batch = 1, sequence = 1024;
  std::vector<base::DType> dtypes;  // of products and attention
  int threads = 1;                  // of this rank; ignored on a GPU
  base::Device device;
  std::string disk_folder;                              // empty: the disk is left out
  std::int64_t disk_bytes = std::int64_t{128} << 20;    // of each rank
  double confidence = 0.03;                             // half the 95 % interval of the median, relative
  std::int64_t copied_bytes = std::int64_t{256} << 20;  // of memory.copy and memory.write
  double budget_seconds =
      30;  // all ceilings together: each gets what it needs at the least, and they share the rest equally
  std::vector<double> least_seconds;  // least_ceiling_seconds(); empty: not known
};

// Something to be timed. run() does `amount` units of work (FLOP, bytes, or 1 where seconds are the product); on a GPU
// it submits, and finish() waits.
struct Work {
  double amount = 1;
  std::function<void()> run;
  std::shared_ptr<void> memory;  // what run() works on
  std::function<void()> finish = [] {};
};
// Ready to be made: memory is taken when its turn comes.
struct Ceiling {
  std::string name, shape, unit;  // unit "FLOP/s", "B/s" or "s"
  int threads = 1;
  std::function<Work()> make;
  double amount = 0,
         memory_bytes =
             0;  // what a run will do, and the memory it will do it in, where they are known beforehand (on a CPU)
};

// On a CPU, with one thread and with all: arithmetic.f32 and, where bf16 is asked for, arithmetic.bf16 (multiply-adds
// in registers, as products have them), memory.copy (bytes read and written both counted), memory.write. With all:
// gemm.<weight>.forward, .input and .weight for every product of a layer and the head; attention.forward and .backward
// (the causal half is counted); adamw (bytes that it must read and write); disk.write (until durable) and disk.read. On
// a GPU: arithmetic (the largest square product up to 8192), memory.copy and .write, copy.to_device and
// copy.from_device (pinned), launch (seconds of an empty kernel's turn), and gemm, attention, adamw and the disk as
// above.
std::vector<Ceiling> ceilings(const CeilingOptions& options, const std::string& rank_suffix);

// One ceiling on this process alone, the best of some tries, for benchmarks; units per second, or seconds.
double rate_of(const Ceiling& ceiling);

// Each ceiling on all ranks at the same time; a repeat counts as long as on the slowest rank: at least
// least_ceiling_repeats of them, settled_ceiling_repeats where the budget has room, and more until the median is known.
// Collective. Each is a call in `rounds`, for a watchdog.
inline constexpr int least_ceiling_repeats = 3, settled_ceiling_repeats = 7;
inline constexpr double ceiling_batch_seconds = 0.01;  // a repeat takes, or one run where that is longer
std::vector<plan::LocalRate> measure_ceilings(Ranks& ranks, const CeilingOptions& options,
                                              const std::function<void(const plan::LocalRate&)>& on_rate,
                                              comm::Ledger& rounds);

// About how long each of ceilings() takes at the least, from trying this machine's arithmetic, memory and disk for a
// moment; the same on all ranks. Collective. 0 on a GPU, where nothing is predicted. Throws AgreedError when the disk's
// folder cannot be written.
std::vector<double> least_ceiling_seconds(Ranks& ranks, const CeilingOptions& options);

}  // namespace trainyard::profile
