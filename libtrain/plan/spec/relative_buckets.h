// Buckets of relative positions: which row of its table a bias has for a key's distance from a query (Raffel et al.
// 2020, section 2.1). Borders are exact: they are integers that are compared as integers, never logarithms.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard::plan {

inline constexpr std::int64_t most_relative_buckets = 256, most_relative_distance = std::int64_t{1} << 30;

// Half of the buckets are for later keys if they are bidirectional. With s buckets for a direction and e = s / 2, a
// distance of n places below e has bucket n. Others have e + floor((s - e) log(n / e) / log(maximum_distance / e)), but
// at most s - 1.
struct RelativeBucketRule {
  std::int64_t buckets = 32, maximum_distance = 128;
  bool bidirectional = true;

  std::int64_t side() const { return bidirectional ? buckets / 2 : buckets; }
  // Whether the formula has a value: 2 to most_relative_buckets buckets for a direction, an even number of them if they
  // are bidirectional, and a maximum distance above e.
  bool valid() const;
  bool operator==(const RelativeBucketRule&) const = default;
};

class RelativeBuckets {
 public:
  explicit RelativeBuckets(const RelativeBucketRule& rule);  // a valid rule
  // The bucket of a key that is `distance` places behind a query; below 0: before it. Unless the buckets are
  // bidirectional, later keys count as 0 places away.
  std::int64_t of(std::int64_t distance) const;
  // The least number of places of each bucket of a direction, ascending, 0 first. Equal neighbours: the first bucket
  // has no distance.
  const std::vector<std::int32_t>& borders() const { return borders_; }

 private:
  RelativeBucketRule rule_;
  std::vector<std::int32_t> borders_;
};

}  // namespace trainyard::plan
