// Ranks: the processes or threads that measure together, and how they get communicators for groups.
#pragma once

#include "libtrain/base/clock.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/comm/world.h"
#include "libtrain/tensor/exec.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::profile {

using base::Clock;  // the time of a rank

// `between` makes the communicators under test.
struct Ranks : comm::World {
  using comm::World::World;
  std::unique_ptr<tensor::Exec> caller = tensor::Exec::caller(nullptr, 1);  // for `control`
  std::unique_ptr<tensor::Exec> exec;  // for communicators under test: the calling thread, or a GPU's stream
  std::shared_ptr<const Clock> clock = std::make_shared<Clock>();
};

// The maximum and the sum over all ranks, element by element. Collective.
void largest(Ranks& ranks, std::vector<double>& values);
void sums(Ranks& ranks, std::vector<double>& values);
// The texts of all ranks, in rank order. Collective.
std::vector<std::string> from_all(Ranks& ranks, const std::string& text);
// comm/agreement.h over these ranks.
using comm::AgreedError;
std::string from_rank_zero(Ranks& ranks, const std::function<std::string()>& work);
void on_all(Ranks& ranks, const std::function<void()>& body);

}  // namespace trainyard::profile
