// Compares what was given with what a plan has on a host and on disk.
#include "libtrain/engine/unread_settings.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <algorithm>

namespace trainyard::engine {

namespace {

bool is_from_a_flag(const RunConfig& c, const std::string& name) {
  return std::find(c.from_flags.begin(), c.from_flags.end(), name) != c.from_flags.end();
}

}  // namespace

std::vector<UnreadSetting> unread_settings(const RunConfig& asked, const plan::Plan& plan) {
  std::vector<UnreadSetting> out;
  if (!asked.host_memory.empty() && plan.device == base::DeviceKind::cpu)
    out.push_back(
        {"host-memory",
         {base::text("$host-memory {} limits nothing: the ranks compute on the CPU, whose memory is the host's",
                     asked.host_memory),
          base::text("$memory-limit {}, or leave $host-memory out", asked.host_memory)}});
  if (!asked.offload_dir.empty() && !asked.offload_auto && !plan.offload.uses(plan::Place::disk))
    out.push_back({"offload-dir",
                   {base::text("$offload-dir {} stays empty: $offload {} has nothing on disk",
                               base::one_line(asked.offload_dir), plan::offload_text(plan.offload)),
                    base::text("$offload optimizer=disk, or auto; or leave $offload-dir out")}});
  return out;
}

void refuse_unread_flags(const RunConfig& asked, const plan::Plan& plan) {
  base::Complaints wrong;
  for (const auto& each : unread_settings(asked, plan))
    if (is_from_a_flag(asked, each.name)) wrong.add(each.problem.message, each.problem.hint);
  wrong.raise();
}

void warn_of_unread_settings(const RunConfig& asked, const plan::Plan& plan) {
  for (const auto& each : unread_settings(asked, plan))
    if (!is_from_a_flag(asked, each.name)) base::log_warning("{}", each.problem.message);
}

}  // namespace trainyard::engine
