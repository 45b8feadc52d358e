// TextSample: which passages of a text are drawn, so that they fit a limit of bytes.
#pragma once

#include "libtrain/data/text_hash.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <string_view>

namespace trainyard::data {

// A passage has a level by the hash of its bytes: half of all texts have level 0, a quarter level 1, and so on. Drawn
// are the passages from a lowest level on. The lowest level is the first whose passages fit the limit together. So the
// sample depends on the passages alone, never on their order, and is known once the last one is counted.
class TextSample {
 public:
  static constexpr int levels = 48;
  // `everything`: the text is known to fit, so all passages have level 0.
  TextSample(std::int64_t limit, bool everything) : limit_(limit), everything_(everything) {}

  int level_of(std::string_view passage) const {
    if (everything_) return 0;
    const auto zeros = std::countl_zero(hash_of_text(passage).a);
    return zeros < levels ? zeros : levels - 1;
  }
  // The lowest level so far; it only rises. Any thread may ask.
  bool draws() const { return !everything_; }
  int lowest() const { return lowest_.load(std::memory_order_relaxed); }
  // Counts passages of a level that is not below lowest(). One thread at a time.
  void count(int level, std::int64_t bytes) {
    bytes_[static_cast<std::size_t>(level)] += bytes;
    used_ += bytes;
    while (used_ > limit_ && lowest() < levels) {
      used_ -= bytes_[static_cast<std::size_t>(lowest())];
      lowest_.store(lowest() + 1, std::memory_order_relaxed);
    }
  }
  std::int64_t used() const { return used_; }  // bytes of the sample so far

 private:
  std::int64_t limit_, used_ = 0;
  bool everything_;
  std::atomic<int> lowest_ = 0;
  std::array<std::int64_t, levels> bytes_{};
};

}  // namespace trainyard::data
