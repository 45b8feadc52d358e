// Which numbers of tensor ranks can share the layers of a model.
#pragma once

#include "libtrain/plan/problems.h"

#include <vector>

namespace trainyard::plan {

// Why `tensor` ranks cannot share them: key/value heads and every dim that a parameter is cut along must come out even.
// The hint names the nearest numbers that would do. Empty: they can.
std::vector<Problem> tensor_problems(const ModelConfig& model, int tensor);

}  // namespace trainyard::plan
