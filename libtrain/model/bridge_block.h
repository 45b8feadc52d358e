// BridgeBlock: the end of an encoder, and the embedding of the decoder behind it.
#pragma once

#include "libtrain/model/embedding_block.h"
#include "libtrain/model/norm_part.h"

#include <optional>
#include <vector>

namespace trainyard::model {

// forward makes flow.memory from the encoder's hidden states in flow.source, which the final norm overwrites. flow.main
// then becomes flow.target, the embedding of the target's tokens. backward consumes the gradient of the hidden states.
// From the sum of the gradients of the encoder's output it makes the gradient of the encoder's hidden states, which
// flow.main then is. A later pass of texts that go on is the embedding alone. Described by plan::BridgeKind.
class BridgeBlock : public Block {
 public:
  // Flat groups: what plan::BridgeKind owns. Occurrences: of the norm, if there is one, then of the decoder's
  // embedding.
  BridgeBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
              const std::vector<plan::Occurrence>& occurrences);
  std::string name() const override { return "bridge"; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;

 private:
  plan::ModelConfig model_;
  std::optional<plan::Occurrence> normed_;
  std::optional<NormPart> norm_;
  DropoutSite dropout_;  // behind the norm
  EmbeddingBlock embedding_;
};

}  // namespace trainyard::model
