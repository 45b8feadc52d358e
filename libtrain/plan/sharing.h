// Sharing: how many tensor ranks can share the layers of a model.
#pragma once

#include "libtrain/plan/problems.h"

#include <optional>

namespace trainyard::plan {

// Why `tensor` ranks cannot share them, whatever the run: key-value heads and every dim that a parameter is cut along
// must come out even. The hint names the nearest numbers that would do. None: they can.
std::optional<Problem> sharing_problem(const ModelConfig& model, int tensor);

}  // namespace trainyard::plan
