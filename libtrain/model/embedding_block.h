// EmbeddingBlock: token table, learned positions where the model has them, dropout.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/model/dropout_site.h"

namespace trainyard::model {

// forward overwrites flow.main; backward ends the stream's gradient (flow.main is left undefined). Saves nothing.
class EmbeddingBlock : public Block {
 public:
  explicit EmbeddingBlock(const plan::ModelConfig& model);
  std::string name() const override { return "embedding"; }
  std::vector<plan::Use> uses() const override;
  std::vector<plan::Unit> declares() const override { return units_; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;

 private:
  bool learned_positions_;
  std::vector<plan::Unit> units_;
  DropoutSite dropout_;
};

}  // namespace trainyard::model
