// ExpertDispatch: how the rows of a rank's tokens come to their experts, and results and gradients back. One kind for
// each way in which ranks divide experts.
#pragma once

#include "libtrain/model/branch.h"
#include "libtrain/plan/grid/expert_share.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainyard::model {

// A run of a rank's experts, with the rows that all ranks send to them. It names rows of "dispatched" and of the
// experts' tensors, groups of worked_groups(), and experts of this rank.
struct ExpertChunk {
  std::int64_t rows = 0, first_row = 0, groups = 0, first_group = 0, experts = 0, first_expert = 0;
};
// The chunks of a layer, as many as plan::ExpertShare::chunks says.
std::vector<ExpertChunk> expert_chunks(const plan::ModelConfig& of_layer, const plan::ExpertShare& share,
                                       const SavedSet& tensors);

// This tensor-parallel rank's part of "results" and "sources": the part of its experts.
base::View own_results(const Step& step, const SavedSet& tensors);
base::View own_sources(const Step& step, const SavedSet& tensors);
// The groups of rows that this rank's experts compute.
base::View worked_groups(const plan::ExpertShare& share, const SavedSet& tensors);

// What a dispatch asks of the branch: computing rows that have arrived. The experts' weights are leased from lease()
// until release() or the end of the ExpertWork.
class ExpertWork {
 public:
  virtual ~ExpertWork() noexcept(false) = default;  // as params::Grads, which it may hold
  virtual void lease() = 0;                         // nothing, if they are leased
  virtual void release() = 0;
  // Results of the chunk's rows of "dispatched", into `made`.
  virtual void run(const ExpertChunk& chunk, base::View made) = 0;
  virtual void input_gradients(const ExpertChunk& chunk, base::View dy, base::View dx) = 0;
  // Weight gradients of one source, an expert-parallel rank: begin, for each chunk weight_gradients, end. begin opens
  // the gradients; false: the source's micro-batch is empty, and there is nothing to compute.
  virtual bool begin(int source) = 0;
  virtual void weight_gradients(const ExpertChunk& chunk, base::View dy, int source) = 0;
  virtual void end() = 0;
};

class ExpertDispatch {
 public:
  virtual ~ExpertDispatch() = default;
  // Whether forward expects the rows of this rank's tokens, slot by slot. If not, it takes them from "normed" itself.
  virtual bool takes_rows() const { return true; }
  // Where these rows are to be written: scratch of the caller's scope, if they go to other ranks; else "dispatched".
  virtual base::View place_of_rows(Step& step, const SavedSet& tensors) const;
  // Makes "results" of this rank's tokens. `rows`: what place_of_rows returned. With an empty micro-batch nobody reads
  // what these buffers hold.
  virtual void forward(Step& step, const SavedSet& tensors, base::View rows, ExpertWork& work) const = 0;
  // Before: "results" has the gradient of the experts' results. After: it has the gradient of the experts' input rows.
  virtual void backward(Step& step, const SavedSet& tensors, ExpertWork& work) const = 0;
};

// The dispatch of a layer in a pass. record: the layer's number among the layers with experts.
//   local   the rank has all experts
//   dealt   tensor-parallel ranks have all rows, and divide the experts
//   slots   data-parallel ranks divide the experts, and send rows in slots of one size, chunk by chunk
//   rounds  the same without a capacity, in dispatch rounds (model/expert_rounds.h)
std::unique_ptr<ExpertDispatch> make_dispatch(const plan::ModelConfig& of_layer, const plan::ExpertShare& share,
                                              plan::Pass pass, std::int64_t record);

}  // namespace trainyard::model
