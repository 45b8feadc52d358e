// Settings of offload that a run does not read, although it has a value for them.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/plan/plan.h"

#include <string>
#include <vector>

namespace trainyard::engine {

// `name`: of the setting, such as "host-memory".
struct UnreadSetting {
  std::string name;
  plan::Problem problem;
};

// `asked`: the settings before the start has decided anything; `plan`: what it has decided. A start with --offload auto
// reads the folders, whatever it chooses.
std::vector<UnreadSetting> unread_settings(const RunConfig& asked, const plan::Plan& plan);

// UsageError for those that the command line gave (RunConfig::from_flags). A file or the environment serves other runs
// and devices, too, so there warn_of_unread_settings says it.
void refuse_unread_flags(const RunConfig& asked, const plan::Plan& plan);
void warn_of_unread_settings(const RunConfig& asked, const plan::Plan& plan);

}  // namespace trainyard::engine
