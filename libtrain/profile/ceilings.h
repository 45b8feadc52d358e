// Ceilings: what a rank's own memory, arithmetic and disk can do. Benchmarks divide by these limits, and a planner
// needs the rates.
#pragma once

#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/profile/ranks.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::profile {

// A layout in which blocks are measured.
struct BlockLayout {
  std::int64_t micro_batch = 1;
  int tensor = 1, experts = 1;
};

struct CeilingOptions {
  plan::ModelConfig model;  // its products and attention are measured
  int tensor = 1;           // tensor-parallel ranks: one rank's part of a layer is measured
  std::int64_t micro_batch = 1, sequence = 1024;
  std::vector<base::DType> dtypes;  // of products and attention
  int threads = 1;                  // of this rank; ignored on a GPU
  base::Device device;
  std::string disk_folder;                              // empty: the disk is left out
  std::int64_t disk_bytes = std::int64_t{128} << 20;    // of each rank
  double confidence = 0.03;                             // half the 95 % interval of the median, relative
  std::int64_t copied_bytes = std::int64_t{256} << 20;  // of memory.copy and memory.write
  // For all ceilings together: each gets the least time that it needs, and all share the rest equally.
  double budget_seconds = 30;
  std::vector<double> least_seconds;  // result of least_ceiling_seconds(); empty: not known
  // Folders that may hold what memory does not (base/storage.h), disk_bytes in each; empty: none is measured.
  std::vector<std::string> storage_folders;
  std::vector<BlockLayout> blocks;  // in which the model's blocks are measured; empty: they are not
  // The ranks that measure together: blocks are measured with the calls of their groups as well. null: only without.
  const Ranks* together = nullptr;
};

// Something to be timed. run() does `amount` units of work: FLOP, bytes, or where the result is seconds, as many things
// of which one takes them. On a GPU run() submits the work, and finish() waits for it.
struct Work {
  double amount = 1;
  std::function<void()> run;
  std::shared_ptr<void> memory;  // what run() works on
  std::function<void()> finish = [] {};
};
// A ceiling that is ready to be measured: make() takes its memory only when it is this ceiling's time.
struct Ceiling {
  std::string name, shape, unit;  // unit "FLOP/s", "B/s" or "s"
  int threads = 1;
  std::function<Work()> make;
  // The work that a run will do and the memory that it will use, where they are known beforehand (on a CPU).
  double amount = 0, memory_bytes = 0;
};

// The list of ceilings.
// On a CPU, with one thread and with all threads:
//  arithmetic.f32, and arithmetic.bf16 where bf16 is asked for (multiply-adds in registers, as products have them)
//  memory.copy (bytes read and bytes written both count), memory.write
// On a CPU, with all threads (the disk with one):
//  gemm.<weight>.forward, .input and .weight, for every product of a layer and the head
//  attention.forward and .backward (the causal half counts)
//  adamw (the bytes that it must read and write)
//  disk.write (until durable), disk.read
//  block.<part>.<pass> (seconds), if there are options.blocks (profile/block_work.h)
//  storage.write, storage.read, storage.update (read and written back, both counted) of each storage folder, and of all
// On a GPU:
//  arithmetic.<dtype> (a square product of at most 8192 a side), memory.copy, memory.write
//  copy.to_device, copy.from_device (pinned memory)
//  launch (the seconds that an almost empty kernel takes)
//  gemm, attention, adamw, the disk and storage folders as above
//  host.copy, if there are storage folders: the host's memory.copy
std::vector<Ceiling> ceilings(const CeilingOptions& options, const std::string& rank_suffix);

// Measures one ceiling on this process alone, for benchmarks: the best of some tries, in units per second, or in
// seconds.
double rate_of(const Ceiling& ceiling);

// Measures each ceiling on all ranks at the same time; a repeat counts as long as on the slowest rank. A ceiling has at
// least least_ceiling_repeats, and settled_ceiling_repeats if the budget has room. It has more until the median is
// known. Collective. Each ceiling is a call in `rounds`, for a watchdog.
inline constexpr int least_ceiling_repeats = 3, settled_ceiling_repeats = 7;
inline constexpr double ceiling_batch_seconds = 0.01;  // length of a repeat, unless one run takes longer
std::vector<plan::LocalRate> measure_ceilings(Ranks& ranks, const CeilingOptions& options,
                                              const std::function<void(const plan::LocalRate&)>& on_rate,
                                              comm::Ledger& rounds);

// About the least time that each of ceilings() takes, the same on all ranks. It is predicted from a moment's trial of
// this machine's arithmetic, memory and disk. Collective. 0 on a GPU, where nothing is predicted. Throws AgreedError if
// the disk's folder cannot be written, or a storage folder lacks the space.
std::vector<double> least_ceiling_seconds(Ranks& ranks, const CeilingOptions& options);

}  // namespace trainyard::profile
