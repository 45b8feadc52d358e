// ExpertRounds: dispatch rounds. Expert-parallel ranks exchange rows through a buffer of a fixed size, in as many
// rounds as needed.
#pragma once

#include "kernels/expert_rounds/expert_rounds.h"
#include "libtrain/model/expert_dispatch.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>

namespace trainyard::model {

// For a layer without a capacity. The rows that a rank has for one expert are a group, which is sent whole. For each
// destination, groups go in their order, as many in a round as the buffer holds. So the counts alone decide. All ranks
// make as many rounds as the pair of ranks with most. They agree on that number, and the host waits for it. Rows of a
// rank's own tokens ("results") are one behind the other, as with one rank. What experts save belongs to the last
// round, so with one round nothing is recomputed.
// With several rounds, backward goes through all rounds again for each source, because weight gradients are reduced
// source by source. A source is one of the expert-parallel ranks. Only that source's rows are then there, but buffers
// are sent whole. Frozen experts have no weight gradients: then backward goes through all rounds once, with the rows of
// all sources.
class ExpertRounds : public ExpertDispatch {
 public:
  // record: the layer's number among the layers with experts.
  ExpertRounds(const plan::ModelConfig& of_layer, const plan::ExpertShare& share, std::int64_t record)
      : model_(of_layer), share_(share), record_(record) {}
  bool takes_rows() const override { return false; }
  base::View place_of_rows(Step&, const SavedSet&) const override { return {}; }
  void forward(Step& step, const SavedSet& tensors, base::View rows, ExpertWork& work) const override;
  void backward(Step& step, const SavedSet& tensors, ExpertWork& work) const override;

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
  plan::ExpertShare share_;
  std::int64_t record_;
};

}  // namespace trainyard::model
