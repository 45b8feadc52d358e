// What a run reads: the windows that it is trained with, and the windows that it is validated with.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/data/mixed_windows.h"
#include "libtrain/engine/set_windows.h"
#include "libtrain/engine/setup.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace trainyard::engine {

// InputError if the shards hold less than the run asks for, or no target that counts.
class RunWindows {
 public:
  explicit RunWindows(const RunSetup& setup);
  data::WindowSource& training() { return *mixed_; }
  data::WindowSource* validation() { return validated_ ? &*validated_ : nullptr; }  // null: there is none
  const data::Mixture& mixture() const { return mixed_->mixture(); }
  // A warning if steps of `batch` sequences often have no target that counts, else "". It reads the first sequences of
  // the run, which has `samples`, and only where answers or hidden tokens alone count.
  std::string few_targets_text(const RunSetup& setup, std::int64_t batch, std::int64_t samples);

 private:
  std::deque<SetWindows> training_, validation_;
  std::optional<data::MixedWindows> mixed_;
  std::optional<data::ConsecutiveWindows> validated_;
};

// The error for data in which no target counts. `what` names the data.
enum class Counted { all, hidden, answers };
base::InputError nothing_counts(const std::string& what, Counted counted);
Counted counted_of(const RunSetup& setup);

// One line about a run that has read, or will have read, `samples` sequences after `steps` steps: "data: 4,320 windows
// of 129 tokens, with 98.2 % of the training tokens; in 500 steps each is read 3.7 times (epochs)". A line for each set
// of a mixture follows. Of pairs it counts the rows.
std::string reading_text(const RunSetup& setup, std::int64_t steps, std::int64_t samples);

}  // namespace trainyard::engine
