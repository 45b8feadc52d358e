// Which part of which tensor of a kind lies where in a rank file. An index holds the boxes of tensors that have the
// shape of their parameters. What lies where of the other states follows from these boxes.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/tensor_table.h"

#include <cstdint>
#include <map>
#include <vector>

namespace trainyard::checkpoint {

// The boxes of a rank's tensors of a shape, from the boxes of its parameters. A state that has a number for each row or
// column of a parameter is saved whole, by the rank whose boxes hold element 0 of the parameter. Its dataset holds
// these states back to back, in the order of the boxes. If parameters are frozen, the boxes of the others lie back to
// back in the datasets of masters and states. `parameters` have the shapes of the parameters.
RankBoxes boxes_of_kind(StateShape shape, const RankBoxes& boxes, const std::vector<ParameterEntry>& parameters);

// The boxes of one rank for each kind, and the sizes of its datasets.
class KindBoxes {
 public:
  // `elements`: of the datasets that have the shape of the parameters; boxes may be followed by padding. Shares
  // `boxes`, which must outlive it.
  KindBoxes(const RankBoxes& boxes, std::int64_t elements, const KindTensors& tensors);

  const RankBoxes& of(const Kind& kind) const;
  std::int64_t elements(const Kind& kind) const;  // of the dataset

 private:
  const RankBoxes* boxes_;
  std::int64_t elements_;
  std::map<Kind, RankBoxes> factored_;
};

// The boxes of all ranks of a checkpoint, for each kind. Shares the boxes of the manifest, which must outlive it.
std::vector<KindBoxes> boxes_of_kinds(const Manifest& manifest, const KindTensors& tensors);

// For each tensor of a kind, where its boxes lie, in ascending rank and offset. The places point into `ranks`.
std::vector<std::vector<Place>> places_of(const std::vector<KindBoxes>& ranks, const Kind& kind, std::size_t tensors);

}  // namespace trainyard::checkpoint
