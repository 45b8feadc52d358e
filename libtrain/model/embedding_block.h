// EmbeddingBlock: token table, learned positions where the model has them, dropout.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/model/dropout_site.h"

#include <optional>

namespace trainyard::model {

// forward overwrites flow.main; backward ends the residual stream's gradient (flow.main is left undefined). Saves
// nothing.
class EmbeddingBlock : public Block {
 public:
  // `uses`: of the token table, and of the learned positions (plan::EmbeddingKind).
  EmbeddingBlock(const plan::ModelConfig& model, const std::vector<plan::Use>& uses);
  std::string name() const override { return "embedding"; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // It has no other gradients than those of its tables: the stream's waits for them.
  void input_gradients(Step&, Flow&, Saved&) override {}
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override { backward(step, flow, saved); }

 private:
  void look_up_together(Step& step, base::View table, base::View position_table, base::View out) const;
  plan::Use tokens_;
  std::optional<plan::Use> positions_;
  DropoutSite dropout_;
};

}  // namespace trainyard::model
