// KnownModel: what follows from a model alone, made once for a model that is asked about again and again.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainyard::plan {

// Layers [first, end) of a model are neighbours that are alike.
struct AlikeLayers {
  std::int64_t first = 0, end = 0;
  std::shared_ptr<const ModelConfig> model;  // as they see it (plan/spec/layer_model.h)
};

// Of one thread.
class KnownModel {
 public:
  explicit KnownModel(const ModelConfig& model) : model_(std::make_shared<const ModelConfig>(model)) {}

  const std::shared_ptr<const ModelConfig>& model() const { return model_; }
  // All layers. Those that are alike have the same `model`, also where they are no neighbours.
  const std::vector<AlikeLayers>& layers() const;

 private:
  std::shared_ptr<const ModelConfig> model_;
  mutable std::vector<AlikeLayers> layers_;  // empty: not asked for yet
};

// The thread keeps the last few, so equal models have the same one. So the same pointers in it mean equal models. None
// is from before a registration of a kind.
std::shared_ptr<const KnownModel> known_model(const ModelConfig& model);

}  // namespace trainyard::plan
