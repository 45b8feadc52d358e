// EmbeddingBlock: token table; learned positions, segments and a norm where the model has them; dropout.
#pragma once

#include "libtrain/model/dropout_site.h"
#include "libtrain/model/norm_part.h"

#include <optional>
#include <string>
#include <vector>

namespace trainyard::model {

// forward overwrites flow.main. backward consumes the gradient of the hidden states and leaves flow.main undefined.
// Saves what the norm needs. Every token uses the first row of a table of segments, because a window is one text.
class EmbeddingBlock : public Block {
 public:
  // Flat groups and their occurrences: the token table, then learned positions, segments and norm, as far as the model
  // has them (plan::EmbeddingKind). `site` names the place of its dropout.
  EmbeddingBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
                 const std::vector<plan::Occurrence>& occurrences, const std::string& site = "embedding");
  std::string name() const override { return "embedding"; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // input_gradients: the gradient of the sum, from which weight_gradients makes the tables' gradients, and the norm's
  // gradients. Between the halves the norm's gradients are in "norm_gradients".
  void input_gradients(Step& step, Flow& flow, Saved& saved) override;
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override;

 private:
  void look_up_together(Step& step, base::View table, base::View position_table, base::View out) const;
  base::View used_positions(base::View table) const;
  void table_gradients(Step& step, base::View d_sum) const;
  std::vector<plan::SavedTensor> tensors(const Step& step, plan::Pass pass) const;
  plan::ModelConfig model_;
  plan::Occurrence tokens_;
  std::optional<plan::Occurrence> positions_, segments_, normed_;
  std::optional<NormPart> norm_;
  DropoutSite dropout_;
};

}  // namespace trainyard::model
