// Times the laps of one thread of a team. Included only by *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/kernel_work.h"

#include <cstdint>

namespace trainyard::base {
double steady_seconds();  // declared here, because libtrain/base/here_and_now.h would bring in standard templates
}

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// While a clock measures (`team` is not null), packed() and computed() add the time since the previous lap to their
// kind.
class TeamClock {
 public:
  TeamClock(TeamSeconds* team, std::int64_t thread) : mine_(team == nullptr ? nullptr : team + thread) { start(); }
  void start() {
    if (mine_ != nullptr) at_ = base::steady_seconds();
  }
  void packed() {
    if (mine_ != nullptr) lap(mine_->packing);
  }
  void computed() {
    if (mine_ != nullptr) lap(mine_->computing);
  }

 private:
  void lap(double& of) {
    const double now = base::steady_seconds();
    of += now - at_;
    at_ = now;
  }
  TeamSeconds* mine_;
  double at_ = 0;
};

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
