// EmbeddingBlock: token table, where the model has them learned positions, segments and a norm, dropout.
#pragma once

#include "libtrain/model/dropout_site.h"
#include "libtrain/model/norm_part.h"

#include <optional>
#include <vector>

namespace trainyard::model {

// forward overwrites flow.main; backward ends the residual stream's gradient (flow.main is left undefined). Saves what
// the norm needs. Of a table of segments every token has the first row: windows are one text.
class EmbeddingBlock : public Block {
 public:
  // Flat groups and their occurrences: the token table, then what there is of the learned positions, the segments and
  // the norm (plan::EmbeddingKind).
  EmbeddingBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
                 const std::vector<plan::Occurrence>& occurrences);
  std::string name() const override { return "embedding"; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // Those of the sum, which the tables' are made of, and of the norm. Between the two these lie in "norm_gradients".
  void input_gradients(Step& step, Flow& flow, Saved& saved) override;
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override;

 private:
  void look_up_together(Step& step, base::View table, base::View position_table, base::View out) const;
  void table_gradients(Step& step, base::View d_sum) const;
  std::vector<plan::SavedTensor> tensors(const Step& step, plan::Pass pass) const;
  plan::ModelConfig model_;
  plan::Occurrence tokens_;
  std::optional<plan::Occurrence> positions_, segments_, normed_;
  std::optional<NormPart> norm_;
  DropoutSite dropout_;
};

}  // namespace trainyard::model
