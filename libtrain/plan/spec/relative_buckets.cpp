// Borders of buckets, from powers as exact integers.
#include "libtrain/plan/spec/relative_buckets.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <compare>
#include <cstdlib>

namespace trainyard::plan {

namespace {

// A natural number of any size.
class Natural {
 public:
  Natural& operator*=(std::uint32_t factor) {
    std::uint64_t carry = 0;
    for (auto& digit : digits_) {
      carry += std::uint64_t{digit} * factor;
      digit = static_cast<std::uint32_t>(carry), carry >>= 32;
    }
    if (carry != 0) digits_.push_back(static_cast<std::uint32_t>(carry));
    return *this;
  }
  Natural& multiply(std::int64_t factor, std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i) *this *= static_cast<std::uint32_t>(factor);
    return *this;
  }
  std::strong_ordering operator<=>(const Natural& other) const {
    if (const auto longer = digits_.size() <=> other.digits_.size(); longer != 0) return longer;
    return std::lexicographical_compare_three_way(digits_.rbegin(), digits_.rend(), other.digits_.rbegin(),
                                                  other.digits_.rend());
  }

 private:
  std::vector<std::uint32_t> digits_{1};  // the lowest first, none above the highest that is not 0
};

}  // namespace

bool RelativeBucketRule::valid() const {
  return buckets >= 1 && side() >= 2 && buckets <= most_relative_buckets && (!bidirectional || buckets % 2 == 0) &&
         maximum_distance > side() / 2 && maximum_distance <= most_relative_distance;
}

// n has bucket e + k or a later one if (s - e) log(n / e) >= k log(m / e), which is n^(s-e) >= m^k e^(s-e-k).
RelativeBuckets::RelativeBuckets(const RelativeBucketRule& rule) : rule_(rule) {
  TRAINYARD_ASSERT(rule.valid(), "{} buckets up to a distance of {}", rule.buckets, rule.maximum_distance);
  const auto exact = rule.side() / 2, rest = rule.side() - exact;
  for (std::int64_t n = 0; n < exact; ++n) borders_.push_back(static_cast<std::int32_t>(n));
  auto border = exact;
  for (std::int64_t k = 0; k < rest; ++k) {
    const auto least = Natural().multiply(rule.maximum_distance, k).multiply(exact, rest - k);
    auto end = rule.maximum_distance;  // reaches every bucket
    while (border < end) {
      const auto middle = border + (end - border) / 2;
      if (Natural().multiply(middle, rest) >= least) end = middle;
      else border = middle + 1;
    }
    borders_.push_back(static_cast<std::int32_t>(border));
  }
}

std::int64_t RelativeBuckets::of(std::int64_t distance) const {
  const auto places = rule_.bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  const auto bucket = std::upper_bound(borders_.begin(), borders_.end(), places) - borders_.begin() - 1;
  return bucket + (rule_.bidirectional && distance > 0 ? rule_.side() : 0);
}

}  // namespace trainyard::plan
