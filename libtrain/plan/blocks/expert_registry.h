// The kinds of networks of an expert by name.
#pragma once

#include "libtrain/plan/blocks/expert_kind.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {

// The kinds by name. The library has "ffn": up, activation, down, and with a gated activation gate and up; its width is
// experts.ffn.
void register_expert(const std::string& name, std::shared_ptr<const ExpertKind> kind);
const ExpertKind& expert_kind(const std::string& name);  // UsageError that names the nearest known kind
std::vector<std::string> expert_names();                 // sorted

}  // namespace trainyard::plan
