// Differences of seconds, and their sums.
#include "libtrain/engine/disk_watch.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"

#include <fmt/format.h>

namespace trainyard::engine {

void DiskWatch::begin_step() {
  if (!blocked_so_far_) return;
  if (under_way_++ == 0) since_ = blocked_so_far_();
}

double DiskWatch::end_step() {
  if (!blocked_so_far_) return -1;
  TRAINYARD_ASSERT(under_way_ > 0, "no step has begun");
  --under_way_;
  const double now = blocked_so_far_(), blocked = now - since_;
  since_ = now;
  blocked_ += blocked;
  return blocked;
}

std::string DiskWatch::text(const base::StorageTotals& moved) const {
  if (!blocked_so_far_ || !(step_seconds_ > 0)) return {};
  const auto rate = [&](std::int64_t bytes) {
    return base::rate_text(static_cast<double>(bytes) / step_seconds_, "B/s");
  };
  return fmt::format("disk: {} read and {} written in steps ({} and {}); steps were blocked {} of {}",
                     base::size_text(moved.read), base::size_text(moved.written), rate(moved.read), rate(moved.written),
                     base::duration_text(blocked_), base::duration_text(step_seconds_));
}

}  // namespace trainyard::engine
