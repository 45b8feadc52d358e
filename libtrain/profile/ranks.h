// Ranks: the processes or threads that measure together, and how they come to talk in groups.
#pragma once

#include "libtrain/base/clock.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/tensor/exec.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::profile {

using base::Clock;   // the time of a rank

struct Ranks {
  int rank = 0, size = 1;
  std::unique_ptr<comm::Communicator> control;      // all ranks, host memory; carries decisions and times
  std::unique_ptr<tensor::Exec> caller = tensor::Exec::caller(nullptr, 1);   // for `control`
  // The communicator under test over some ranks of the world, this one among them; asked for by all of them together. Its calls go to `exec`.
  std::function<std::unique_ptr<comm::Communicator>(const std::string& name, const std::vector<int>& ranks)> group;
  std::unique_ptr<tensor::Exec> exec;               // the calling thread, or a GPU's stream
  std::shared_ptr<const Clock> clock = std::make_shared<Clock>();
};

// Element by element over all ranks. Collective.
void largest(Ranks& ranks, std::vector<double>& values);
void sums(Ranks& ranks, std::vector<double>& values);
// The texts of all ranks, in their order. Collective.
std::vector<std::string> from_all(Ranks& ranks, const std::string& text);
// comm/agreement.h over these ranks.
using comm::AgreedError;
std::string from_rank_zero(Ranks& ranks, const std::function<std::string()>& work);
void on_all(Ranks& ranks, const std::function<void()>& body);

}  // namespace trainyard::profile
