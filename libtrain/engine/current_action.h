// CurrentAction: the action of its list that a rank is executing, readable from other threads.
#pragma once

#include "libtrain/plan/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

namespace trainyard::engine {

// The thread that executes the list sets it, and any thread reads it. It refers to nothing in the list.
class CurrentAction {
 public:
  // `micro`: the micro-batch to report, since a list of plan::evaluation_actions only counts its own. -1: no
  // micro-batch.
  void begin(const plan::Action& action, std::int64_t micro) {
    packed_ = ((micro + 1) << 24) | ((action.chunk + 1) << 8) | static_cast<std::int64_t>(action.kind);
  }
  void begin(const plan::Action& action) { begin(action, action.micro); }

  // Its end clears the current action.
  struct UntilEnd {
    explicit UntilEnd(CurrentAction& of) : of_(of) {}
    ~UntilEnd() { of_.packed_ = nothing; }
    UntilEnd(const UntilEnd&) = delete;
    CurrentAction& of_;
  };

  // For example "forward of micro-batch 3, virtual stage 1"; `otherwise` if no action is current. With several pipeline
  // stages the text begins with "stage 2, ".
  std::string text(int stage, int stages, const char* otherwise) const {
    const std::int64_t at = packed_;
    std::string text = at == nothing ? otherwise : plan::name_of(static_cast<plan::Action::Kind>(at & 0xff));
    std::replace(text.begin(), text.end(), '_', ' ');
    if (const auto micro = (at >> 24) - 1; at != nothing && micro >= 0)
      text += fmt::format(" of micro-batch {}", micro);
    if (const auto chunk = ((at >> 8) & 0xffff) - 1; at != nothing && chunk > 0)
      text += fmt::format(", virtual stage {}", chunk);
    return stages == 1 ? text : fmt::format("stage {}, {}", stage, text);
  }

 private:
  static constexpr std::int64_t nothing = -1;
  std::atomic<std::int64_t> packed_{nothing};
};

}  // namespace trainyard::engine
