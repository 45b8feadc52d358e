// Profile: what the links between ranks, and a rank's own memory, arithmetic and disk can do, as measured. JSON
// "trainyard.profile/1".
#pragma once

#include "libtrain/plan/links/link_fit.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

inline constexpr const char* profile_format = "trainyard.profile/1";

// The measurement of one size. Seconds are the time of the slowest rank, over all groups that worked at the same time.
struct CommPoint {
  // As nccl-tests counts them: bytes of a rank's larger buffer, elements of its smaller one.
  std::int64_t bytes = 0, count = 0;
  double seconds = 0;           // median of the repeats
  base::Interval interval;      // 95 % interval of that median
  double p95 = 0, p99 = 0;      // of single calls, in seconds
  std::int64_t calls = 0;       // timed calls
  int slowest_rank = 0;         // world rank that was last most often
  double slowest_share = 0;     // share of the calls in which it was last
  std::int64_t wrong = 0;       // wrong elements
  std::vector<double> repeats;  // in the order of measurement; each is the median of some calls, in seconds
};

// One operation in one family of groups.
struct CommSeries {
  std::string group, operation, type;  // "data", "all_gather", "f32"
  int ranks = 0, groups = 1;           // ranks of each group; groups that worked at the same time
  std::vector<CommPoint> points;       // ascending in bytes
  LinkFit fit;
  double noise_floor = 0;
  std::vector<LinkSamples> samples() const;
};

// One limit of a rank itself, measured on all ranks at the same time. The slowest rank counts.
struct LocalRate {
  // "gemm.forward", "1024x2304x768 f32", "FLOP/s". The unit is FLOP/s, B/s or s (then less is better).
  std::string name, shape, unit;
  int threads = 1;
  double value = 0;         // median
  base::Interval interval;  // 90 % of repeats
  std::vector<double> repeats;
};

struct Profile {
  // "2026-11-21T12:00:00Z", "0.1.0", "mpi", "Open MPI v4.1.4", "cpu", "avx512"
  std::string measured_at, version, backend, library, device, isa;
  int ranks = 1, threads = 1;
  std::vector<std::string> nodes;  // names, each once
  std::vector<CommSeries> communication;
  std::vector<LocalRate> local;
  int cores = 0;  // that the ranks of a node may use together; 0: not known

  const CommSeries* find(const std::string& group, const std::string& operation,
                         const std::string& type) const;  // nullptr: not measured
  const LocalRate* find_local(const std::string& name, const std::string& shape, int threads) const;
};

// Published factors by which nccl-tests turns algorithm bandwidth (bytes / time) into bus bandwidth
// (doc/PERFORMANCE.md). Bus bandwidth can be compared with what a link can do. all_reduce 2 (n - 1) / n; all_gather,
// reduce_scatter (ordered too) and all_to_all (n - 1) / n; broadcast and exchange 1.
double bus_factor(const std::string& operation, int ranks);

bool adds(const std::string& operation);  // false: it only moves bytes, whatever they mean

std::string to_json(const Profile& profile);  // two spaces, repeats on one line, one newline at the end
// Throws InputError naming `where`: damaged text, another format, a missing or unknown key, a wrong type, impossible
// numbers.
Profile profile_from_json(const std::string& text, const std::string& where);

}  // namespace trainyard::plan
