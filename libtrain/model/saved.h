// SavedSet: the saved tensors of one block by name, pushed and popped together from the list that the plan computes.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/plan/activations.h"

#include <string_view>
#include <vector>

namespace trainyard::model {

// Views stay readable after pop until the next push on the same Saved: nothing else allocates from the activations arena.
class SavedSet {
 public:
  static SavedSet push(Saved& saved, std::vector<plan::SavedTensor> list);
  static SavedSet pop(Saved& saved, std::vector<plan::SavedTensor> list);
  base::View operator[](std::string_view name) const;   // the list must name it
  base::View find(std::string_view name) const;         // empty when the list does not name it

 private:
  std::vector<plan::SavedTensor> list_;
  std::vector<base::View> views_;
};

}  // namespace trainyard::model
