// Stripes: how the extents of a storage are divided over folders, so that a planner and a run count the same bytes.
#pragma once

#include "libtrain/base/storage.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::base {

// Each extent is cut into stripes of this size, from its beginning; its last one may be smaller. A stripe is in one
// folder, and no transfer crosses from one stripe into another in one request.
inline constexpr std::int64_t storage_stripe_bytes = 4 * storage_block_bytes;

// A pure function of the bytes of the extents and of the weights. Stripes go, in order, to the folder that is then
// filled the least for its weight; the first of several. So each folder has its share up to a few stripes.
class StorageStripes {
 public:
  // Weights are finite and above 0, and there is at least one; otherwise std::logic_error.
  StorageStripes(std::span<const std::int64_t> extent_bytes, std::span<const double> weights);
  StorageStripes(std::span<const StorageExtent> extents, std::span<const double> weights);

  struct Place {
    std::int32_t folder = 0;
    std::int64_t offset = 0;  // in the folder's file, a multiple of storage_alignment
  };
  // Stripes of all extents have one numbering.
  std::int64_t first_stripe(int extent) const;
  const Place& place(std::int64_t stripe) const;
  std::int64_t stripes() const { return static_cast<std::int64_t>(places_.size()); }
  // The bytes of each folder's file, padding included.
  const std::vector<std::int64_t>& folder_bytes() const { return folder_bytes_; }

 private:
  std::vector<std::int64_t> first_;
  std::vector<Place> places_;
  std::vector<std::int64_t> folder_bytes_;
};

}  // namespace trainyard::base
