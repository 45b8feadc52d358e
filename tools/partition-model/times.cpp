// Times of collectives and disks by a profile.
#include "tools/partition-model/times.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/offload_time.h"
#include "libtrain/plan/offload_time_text.h"

#include <optional>
#include <utility>
#include <vector>

namespace trainyard::tools {

namespace {

double total_of(const std::vector<plan::CommunicationTime>& times) {
  double total = 0;
  for (const auto& t : times) total += t.seconds;
  return total;
}

// Communication times of the stage whose ranks take longest. All of its ranks have a micro-batch in every accumulation
// step.
struct StageTimes {
  int stage = 0;
  std::vector<plan::CommunicationTime> times;
};
StageTimes slowest_stage(const plan::Plan& plan, const plan::Profile& profile) {
  StageTimes slowest{0, plan::communication_times(plan, profile)};
  for (int stage = 1; stage < plan.pipeline; ++stage) {
    auto other = plan::communication_times(plan, profile, plan.topology.rank_of({{plan::Axis::pipe, stage}}));
    if (total_of(other) > total_of(slowest.times)) slowest = {stage, std::move(other)};
  }
  return slowest;
}

std::string collectives_text(const plan::Plan& plan, const StageTimes& slowest) {
  const auto title = plan.pipeline > 1 ? fmt::format("calls by stage {}, no overlap", slowest.stage)
                                       : std::string("a step's collectives, no overlap");
  std::string out = fmt::format("\n  {:<34}{:>8}{:>20}\n", title, "calls", "time");
  for (const auto& t : slowest.times)
    out += fmt::format("  {:<34}{:>8}{:>20}{}\n", plan::name_of(t.group) + " " + t.operation, t.calls,
                       base::duration_text(t.seconds), t.beyond ? "  (beyond the measured sizes)" : "");
  return out + fmt::format("  {:<34}{:>8}{:>20}\n", "all", "", base::duration_text(total_of(slowest.times)));
}

nlohmann::ordered_json collectives_json(const StageTimes& slowest) {
  auto calls = nlohmann::ordered_json::array();
  for (const auto& t : slowest.times)
    calls.push_back({{"group", plan::name_of(t.group)},
                     {"operation", t.operation},
                     {"calls", t.calls},
                     {"seconds", t.seconds},
                     {"beyond_measured_sizes", t.beyond}});
  return {{"stage", slowest.stage}, {"seconds", total_of(slowest.times)}, {"calls", calls}};
}

}  // namespace

Times times_of(const plan::Plan& plan, const Options& o) {
  Times out;
  std::optional<plan::Profile> profile;
  if (!o.profile.empty())
    profile = plan::profile_from_json(base::read_file(o.profile, base::largest_description), o.profile);
  const bool on_disk = plan.disk.space > 0;
  const bool copies = profile && plan.link != plan::LinkBytes{};
  const bool of_disks_alone =
      profile && (on_disk || copies) && profile->communication.empty() && plan.topology.world() > 1;
  if (of_disks_alone)
    base::log_info("{} has no links: the time of the step's collectives is left out", base::one_line(o.profile));
  if (profile && !of_disks_alone) {
    const auto slowest = slowest_stage(plan, *profile);
    out.text = collectives_text(plan, slowest);
    out.json["collectives"] = collectives_json(slowest);
  }
  const auto folders = plan::offload_folders(o.offload_dir, "--offload-dir");
  if (!folders.empty() && !on_disk && !o.offload_auto)
    throw base::UsageError("--offload-dir names folders, and this plan has nothing on disk",
                           "add --offload, such as optimizer=disk, or leave out --offload-dir");
  if (!on_disk && !copies) return out;
  const auto time = plan::offload_time(plan, profile ? &*profile : nullptr, folders);
  if (copies && !time.link_seconds)
    base::log_info("{} has no rates of copies: profile-comm --local --device cuda measures them",
                   base::one_line(o.profile));
  if (profile && on_disk && !time.disk_seconds)
    base::log_info("{} has no rates of folders: profile-comm --local --storage FOLDERS measures them",
                   base::one_line(o.profile));
  else if (profile && on_disk && profile->ranks == 1 && plan.topology.world() > 1)
    base::log_info(
        "{} has rates of one rank: where several ranks share a drive, mpirun -n RANKS measures them together",
        base::one_line(o.profile));
  out.text += "\n" + plan::offload_time_text(plan, time, o.bytes ? base::Sizes::exact : base::Sizes::rounded);
  out.json["disk_work"] = plan::offload_time_json(plan, time);
  if (!profile || !on_disk || !folders.empty()) return out;
  const auto by_speed = plan::folders_by_speed(plan::measured_folders(*profile));
  if (by_speed.empty()) return out;
  const auto asked = plan::folders_text(by_speed);
  out.text += fmt::format("  shares by speed: --offload-dir {}\n", base::one_line(asked));
  out.json["disk_work"]["folders_by_speed"] = asked;
  return out;
}

}  // namespace trainyard::tools
