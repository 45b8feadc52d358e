// LossWatch: notices that a run has diverged although its loss is finite.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace trainyard::engine {

// Warns once in a start if the mean of the last ten losses is clearly above the first loss: by a fifth, and by 0.5.
class LossWatch {
 public:
  // Of each step that has a loss. Returns the warning when it is newly seen, else "".
  std::string look(double loss);

 private:
  static constexpr std::size_t steps = 10;
  double first_ = 0;
  std::deque<double> last_;
  bool reported_ = false;
};

// For a run that met a loss that is not finite: a sentence if the loss had exploded before, up to the last line of the
// metrics file. It names the best loss, the last one, and the last step before the rise. A checkpoint after that step
// is whole, but of no use. Else "". Throws nothing.
std::string explosion_sentence(const std::string& metrics_path);

}  // namespace trainyard::engine
