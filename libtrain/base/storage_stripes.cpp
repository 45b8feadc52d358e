// Divides stripes over folders.
#include "libtrain/base/storage_stripes.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <cmath>

namespace trainyard::base {

namespace {

std::vector<std::int64_t> bytes_of_extents(std::span<const StorageExtent> extents) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(extents.size());
  for (const auto& extent : extents) bytes.push_back(extent.bytes);
  return bytes;
}

}  // namespace

StorageStripes::StorageStripes(std::span<const StorageExtent> extents, std::span<const double> weights)
    : StorageStripes(bytes_of_extents(extents), weights) {}

StorageStripes::StorageStripes(std::span<const std::int64_t> extent_bytes, std::span<const double> weights)
    : folder_bytes_(weights.size()) {
  TRAINYARD_ASSERT(!weights.empty(), "a storage without a folder");
  for (const double weight : weights) TRAINYARD_ASSERT(std::isfinite(weight) && weight > 0, "a weight of {}", weight);
  const auto fill = [&](std::size_t folder, std::int64_t more) {
    return static_cast<double>(folder_bytes_[folder] + more) / weights[folder];
  };
  first_.reserve(extent_bytes.size());
  for (const auto bytes : extent_bytes) {
    TRAINYARD_ASSERT(bytes >= 0, "an extent of {} bytes", bytes);
    first_.push_back(stripes());
    for (std::int64_t done = 0; done < bytes; done += storage_stripe_bytes) {
      const auto stripe = storage_bytes(std::min(storage_stripe_bytes, bytes - done));
      std::size_t least = 0;
      for (std::size_t folder = 1; folder < weights.size(); ++folder)
        if (fill(folder, stripe) < fill(least, stripe)) least = folder;
      places_.push_back({static_cast<std::int32_t>(least), folder_bytes_[least]});
      folder_bytes_[least] += stripe;
    }
  }
}

std::int64_t StorageStripes::first_stripe(int extent) const { return at(first_, extent); }
const StorageStripes::Place& StorageStripes::place(std::int64_t stripe) const { return at(places_, stripe); }

}  // namespace trainyard::base
