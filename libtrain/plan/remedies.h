// Remedies: what makes a plan smaller that does not fit its memory.
#pragma once

#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/plan.h"

#include <string>
#include <string_view>

namespace trainyard::plan {

// Remedies for training or evaluation, each with the bytes that it would need. First come single changes that fit. If
// none fits: a combination that fits, which may have other tensor-parallel and pipeline-parallel degrees on the same
// ranks, and has a micro-batch of 1 only where nothing else fits on them. If none fits either: more ranks, and what may
// lie elsewhere ($offload). If that does not fit either: another model, device or limit, and the changes that come
// nearer. A change that saves less than a hundredth is no remedy. No model helps where the reserve alone is above the
// limit. `limit` is the setting that states device_memory. For an evaluation, the only remedy that changes its numbers
// is a micro-batch of 1. The plan must be predicted and have no decision_problems with these kernels. Takes a second or
// so for deep models on many ranks.
std::string remedies(const Plan& plan, Pass pass = Pass::train, std::string_view limit = "device-memory",
                     Kernels kernels = Kernels::ours);

}  // namespace trainyard::plan
