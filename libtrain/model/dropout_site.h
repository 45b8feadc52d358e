// DropoutSite: dropout at one place of the model, for the current micro-batch.
#pragma once

#include "kernels/dropout/dropout.h"
#include "libtrain/base/random.h"
#include "libtrain/model/block.h"
#include "libtrain/model/tensor_collectives.h"

#include <string>

namespace trainyard::model {

// Sites: "embedding", "layers.07.attention", "layers.07.attention_residual", "layers.07.ffn",
// "layers.07.ffn_residual", "encoder.norm", "head.norm"; purpose "dropout". The names are keys of random numbers, so
// they are part of the numerics.
class DropoutSite {
 public:
  DropoutSite(const std::string& name, double probability)
      : site_(base::site_hash("dropout", name)), probability_(probability) {}
  bool active(const Step& step) const { return step.pass == plan::Pass::train && probability_ > 0; }
  std::uint64_t site() const { return site_; }
  double probability(const Step& step) const { return active(step) ? probability_ : 0.0; }
  // For this rank's rows of the hidden states.
  kernels::Dropout of(const Step& step) const {
    const auto first_row = step.collectives->first_row(step.micro.batch() * step.micro.sequence());
    return {probability(step), step.seed, site_, step.micro.sample_keys(), step.micro.sequence(), first_row};
  }
  // For all rows of a tensor whose columns ranks divide, of which this rank has those from `first` on.
  kernels::Dropout of_columns(const Step& step, std::int64_t first) const {
    return {probability(step), step.seed, site_, step.micro.sample_keys(), step.micro.sequence(), 0, first};
  }

 private:
  std::uint64_t site_;
  double probability_;
};

}  // namespace trainyard::model
