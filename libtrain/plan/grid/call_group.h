// CallGroup: the ranks among which a call is made, as a value.
#pragma once

#include "libtrain/plan/grid/topology.h"

#include <string>
#include <string_view>

namespace trainyard::plan {

// The ranks that differ along some axes alone. Two groups are pipeline stages: along Axis::pipe, pairs of
// neighbouring stages, which send activations and gradients; `stages`, those that hold flat groups together
// (plan/schedule/stages.h).
class CallGroup {
 public:
  constexpr CallGroup() = default;
  constexpr CallGroup(Axis axis) : axes_{axis} {}
  constexpr CallGroup(Axes axes) : axes_(axes) {}
  static constexpr CallGroup stages() {
    CallGroup group;
    group.stages_ = true;
    return group;
  }
  constexpr bool is_stages() const { return stages_; }
  constexpr Axes axes() const { return axes_; }
  bool operator==(const CallGroup&) const = default;

 private:
  Axes axes_;
  bool stages_ = false;
};

// As ledgers, plans and profiles name it: "data", "expert_data", "tensor", "pipe", "stages", "data+context".
std::string name_of(CallGroup group);
// InputError, which begins with `where`, for a name of no group.
CallGroup call_group_named(std::string_view name, const std::string& where);

}  // namespace trainyard::plan
