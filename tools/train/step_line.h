// StepLine: what progress says about a step, within 80 columns.
#pragma once

#include "libtrain/engine/metrics.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::tools {

class StepLine {
 public:
  // "step 300/600  loss 1.848  val 1.893  45,500 tokens/s  33 s left": with the last validation there was, the time by
  //                the mean of the steps since the start. With "train: "
  // before it and a cursor behind it is at most 79 columns wide up to a million steps; words become shorter where they
  // must.
  std::string text(const engine::StepMetrics& metrics, std::int64_t steps);

 private:
  double seconds_ = 0;
  std::int64_t counted_ = 0;
  std::optional<double> validation_;
};

}  // namespace trainyard::tools
