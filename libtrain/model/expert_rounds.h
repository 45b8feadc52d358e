// ExpertRounds: rows of experts that ranks share cross over a buffer of a fixed size, in as many rounds as it takes.
#pragma once

#include "kernels/expert_rounds/expert_rounds.h"
#include "libtrain/model/branch.h"
#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <functional>

namespace trainyard::model {

// Of a layer without a capacity. What a rank has for one expert is a group, which is sent whole: for each destination
// groups go in their order, as many in a round as the buffer holds; counts alone decide. All ranks make as many rounds
// as the pair with most, a number that they agree on, and that the host waits for. Rows of a rank's own tokens lie
// behind one another ("results"), as those of one rank do; what experts save is that of the last round. Backward begins
// with it; for each round before it rows are sent and worked on again. With one round nothing is made twice.
class ExpertRounds {
 public:
  // On the rows "dispatched", in the groups "received": makes their results, or of the gradient of these their own.
  using Run = std::function<void(base::View rows)>;
  // record: the layer's place among those that have experts.
  ExpertRounds(const plan::ModelConfig& of_layer, std::int64_t record) : model_(of_layer), record_(record) {}
  bool made_in(plan::Pass pass) const;
  // Of the tokens "normed", "results".
  void forward(Step& step, const SavedSet& tensors, const Run& run) const;
  // "results" has the gradient of what the experts made, then that of their rows. run_backward makes the weight
  // gradients of the round's groups, and no others.
  void backward(Step& step, const SavedSet& tensors, const Run& run, const Run& run_backward) const;

 private:
  struct Index {
    base::View places;
    kernels::RoundRows rows;
  };
  Index index_of(Step& step, const SavedSet& tensors, base::View rounds) const;
  void lay_out(Step& step, const SavedSet& tensors, const Index& index, std::int64_t round) const;
  void send(Step& step, const SavedSet& tensors, const Index& index, bool first) const;
  static void bring_back(Step& step, const SavedSet& tensors, const Index& index, base::View rows, bool first);

  plan::ModelConfig model_;
  std::int64_t record_;
};

}  // namespace trainyard::model
