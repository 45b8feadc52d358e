// Profile: what the links between ranks and a rank's own memory, arithmetic and disk can do, as measured. JSON
// "trainyard.profile/1".
#pragma once

#include "libtrain/plan/link_fit.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

inline constexpr const char* profile_format = "trainyard.profile/1";

// One size. Seconds are those of the slowest rank of all groups that worked at the time.
struct CommPoint {
  std::int64_t bytes = 0,
               count =
                   0;  // as nccl-tests counts them: bytes of the larger buffer of a rank, elements of the smaller one
  double seconds = 0;  // the median of the repeats
  base::Interval interval;      // 95 % interval of that median
  double p95 = 0, p99 = 0;      // of single calls, seconds
  std::int64_t calls = 0;       // timed
  int slowest_rank = 0;         // of the world: who was last most often
  double slowest_share = 0;     // in how many of the calls
  std::int64_t wrong = 0;       // elements that were not right
  std::vector<double> repeats;  // each the median of some calls, seconds, in the order they were taken
};

// One operation of one family of groups.
struct CommSeries {
  std::string group, operation, type;  // "data", "all_gather", "f32"
  int ranks = 0, groups = 1;           // of each group; that worked at the same time
  std::vector<CommPoint> points;       // bytes ascend
  LinkFit fit;
  double noise_floor = 0;
  std::vector<LinkSamples> samples() const;
};

// One ceiling of a rank itself, measured on all ranks at the same time; the slowest counts.
struct LocalRate {
  std::string name, shape,
      unit;  // "gemm.forward", "1024x2304x768 f32", "FLOP/s"; unit FLOP/s, B/s or s (then less is better)
  int threads = 1;
  double value = 0;         // the median
  base::Interval interval;  // 90 % of repeats
  std::vector<double> repeats;
};

struct Profile {
  std::string measured_at, version, backend, library, device,
      isa;  // "2026-11-21T12:00:00Z", "0.1.0", "mpi", "Open MPI v4.1.4", "cpu", "avx512"
  int ranks = 1, threads = 1;
  std::vector<std::string> nodes;  // names, each once
  std::vector<CommSeries> communication;
  std::vector<LocalRate> local;

  const CommSeries* find(const std::string& group, const std::string& operation,
                         const std::string& type) const;  // nullptr: not measured
  const LocalRate* find_local(const std::string& name, const std::string& shape, int threads) const;
};

// Published factors by which nccl-tests turns algorithm bandwidth (bytes / time) into bus bandwidth, so that it can be
// compared with what a link can do (doc/PERFORMANCE.md): all_reduce 2 (n - 1) / n; all_gather, reduce_scatter (ordered
// too) and all_to_all (n - 1) / n; broadcast and exchange 1.
double bus_factor(const std::string& operation, int ranks);

bool adds(const std::string& operation);  // or does it only move bytes, whatever they mean

std::string to_json(const Profile& profile);  // two spaces, repeats on one line, one newline at the end
// Throws InputError naming `where`: damaged text, another format, a missing or unknown key, a wrong type, numbers that
// cannot be.
Profile profile_from_json(const std::string& text, const std::string& where);

}  // namespace trainyard::plan
