// CurrentAction: which action of its list a rank is at, for whoever asks from another thread.
#pragma once

#include "libtrain/plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

namespace trainyard::engine {

// Set by the thread that goes through the list, read by any; it keeps nothing of the list.
class CurrentAction {
 public:
  // `micro` where that of the action only counts those of a list (plan::evaluation_actions). -1: of none.
  void begin(const plan::Action& action, std::int64_t micro) {
    packed_ = ((micro + 1) << 24) | ((action.chunk + 1) << 8) | static_cast<std::int64_t>(action.kind);
  }
  void begin(const plan::Action& action) { begin(action, action.micro); }

  // Nothing is done any more when it ends.
  struct UntilEnd {
    explicit UntilEnd(CurrentAction& of) : of_(of) {}
    ~UntilEnd() { of_.packed_ = nothing; }
    UntilEnd(const UntilEnd&) = delete;
    CurrentAction& of_;
  };

  // "forward of micro-batch 3, chunk 1"; between lists `otherwise`. With several stages it begins with "stage 2, ".
  std::string text(int stage, int stages, const char* otherwise) const {
    const std::int64_t at = packed_;
    std::string text = at == nothing ? otherwise : plan::name_of(static_cast<plan::Action::Kind>(at & 0xff));
    std::replace(text.begin(), text.end(), '_', ' ');
    if (const auto micro = (at >> 24) - 1; at != nothing && micro >= 0)
      text += fmt::format(" of micro-batch {}", micro);
    if (const auto chunk = ((at >> 8) & 0xffff) - 1; at != nothing && chunk > 0)
      text += fmt::format(", chunk {}", chunk);
    return stages == 1 ? text : fmt::format("stage {}, {}", stage, text);
  }

 private:
  static constexpr std::int64_t nothing = -1;
  std::atomic<std::int64_t> packed_{nothing};
};

}  // namespace trainyard::engine
