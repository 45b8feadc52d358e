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
// behind one another ("results"), as those of one rank do; what experts save is that of the last round. So with one
// round nothing is made twice. With several backward goes through all rounds again for each source, a rank that shares
// the experts, as weight gradients are folded source by source: with its rows alone, in buffers that cross whole.
class ExpertRounds {
 public:
  // On the rows "dispatched", in the groups "received": makes their results, or of the gradient of these their own.
  using Run = std::function<void(base::View rows)>;
  // record: the layer's place among those that have experts.
  ExpertRounds(const plan::ModelConfig& of_layer, std::int64_t record) : model_(of_layer), record_(record) {}
  bool made_in(plan::Pass pass) const;
  // Of the tokens "normed", "results".
  void forward(Step& step, const SavedSet& tensors, const Run& run) const;
  struct Backward {
    Run results;  // as in forward
    std::function<void(base::View dy, base::View dx)> input_gradients;
    std::function<bool(int source)> begin;  // the gradients of a source; false: it has no micro-batch
    // Of the source's groups that are there, and no others.
    std::function<void(base::View dy, int source)> weight_gradients;
    std::function<void()> end;
  };
  // "results" has the gradient of what the experts made, then that of their rows.
  void backward(Step& step, const SavedSet& tensors, const Backward& work) const;

 private:
  struct Index {
    base::View places;
    kernels::RoundRows rows;
  };
  Index index_of(Step& step, const SavedSet& tensors, base::View rounds) const;
  void lay_out(Step& step, const SavedSet& tensors, const Index& index, std::int64_t round) const;
  void send(Step& step, const SavedSet& tensors, const Index& index, bool first) const;
  static void send_gradients(Step& step, const SavedSet& tensors, const Index& index, base::View dy, bool first);
  static void bring_back(Step& step, const SavedSet& tensors, const Index& index, base::View rows, bool first);

  plan::ModelConfig model_;
  std::int64_t record_;
};

}  // namespace trainyard::model
