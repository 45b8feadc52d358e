// LayerBlock: one pre-norm transformer layer: attention branch, then feed-forward branch, both added to the stream.
#pragma once

#include "libtrain/model/attention_part.h"
#include "libtrain/model/ffn_part.h"

namespace trainyard::model {

// Leases its unit once in forward and once in backward, and commits its gradients once, at the end of backward.
class LayerBlock : public Block {
 public:
  LayerBlock(const plan::ModelConfig& model, std::int64_t layer);
  std::string name() const override { return declaration_.unit().name; }
  std::vector<plan::Use> uses() const override { return {use_}; }
  std::vector<plan::Unit> declares() const override { return {declaration_.unit()}; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;

 private:
  plan::ModelConfig model_;
  plan::Use use_;
  Declaration declaration_;
  AttentionPart attention_;
  FfnPart ffn_;
};

}  // namespace trainyard::model
