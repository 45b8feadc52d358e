// WindowBuffer: the arrays of one sequence on the host, for those who look at the data and do not compute on it.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/data/window_source.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainyard::engine {

class WindowBuffer {
 public:
  explicit WindowBuffer(const data::WindowSource& of)
      : i32_(base::size(6 * of.sequence() + 4 * of.source_sequence())), weights_(base::size(of.sequence())) {
    const auto T = of.sequence(), S = of.source_sequence();
    auto* next = i32_.data();
    const auto array = [&](std::int64_t tokens) { return std::exchange(next, next + tokens); };
    ptrs_ = {array(T), array(T), array(T), array(T), weights_.data()};
    if (S > 0) ptrs_.source = {array(S), array(S), array(S), array(S), array(T), array(T)};
  }
  WindowBuffer(const WindowBuffer&) = delete;
  const data::WindowPtrs& ptrs() const { return ptrs_; }
  bool has_target() const {
    return std::any_of(weights_.begin(), weights_.end(), [](auto weight) { return weight != 0; });
  }

 private:
  std::vector<std::int32_t> i32_;
  std::vector<std::uint8_t> weights_;
  data::WindowPtrs ptrs_{};
};

}  // namespace trainyard::engine
