// KeptWeights: a parameter store of whole weights in f32, which are read once. Nothing is gathered, and there are no
// gradients.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/params/store.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/tensor/arena.h"

#include <memory>
#include <vector>

namespace trainyard::generate {

class KeptWeights : public params::ParameterStore {
 public:
  // Reads every weight of the checkpoint and checks what was read. InputError for damage.
  KeptWeights(checkpoint::Reader& reader, const plan::ModelConfig& model, int threads);

 protected:
  void acquire(plan::Occurrence) override {}
  void give_back(plan::Occurrence) override {}
  base::View weight(plan::Occurrence occurrence, int slot) override;
  void open(plan::Occurrence, int) override { no_gradients(); }
  base::View gradient(plan::Occurrence, int, int) override { no_gradients(); }
  void commit(plan::Occurrence, int) override { no_gradients(); }

 private:
  [[noreturn]] static void no_gradients();
  std::vector<plan::FlatGroup> flat_groups_;
  std::vector<plan::FlatLayout> layouts_;
  std::unique_ptr<tensor::Arena> arena_;
  std::vector<base::View> flat_;
};

}  // namespace trainyard::generate
