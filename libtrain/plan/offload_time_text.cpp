// Prints what an offload's bytes cost.
#include "libtrain/plan/offload_time_text.h"

#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::plan {

namespace {

constexpr std::int64_t many_steps = 1000;

std::int64_t written_in_many_steps(const OffloadTime& t, const OffloadTime::Folder& folder) {
  return many_steps * folder.step.written * t.ranks_on_node;
}

std::int64_t hiding_tokens(const Plan& p, const OffloadTime& t) { return *t.hiding_batch * p.sequence; }

std::string rates_text(const StorageRates& r) {
  return fmt::format("  ({} read, {} written, {} both)", base::rate_text(r.read, "B/s"),
                     base::rate_text(r.written, "B/s"), base::rate_text(r.both, "B/s"));
}

}  // namespace

std::string offload_time_text(const Plan& p, const OffloadTime& t, base::Sizes sizes) {
  const auto row = [](const std::string& name, const std::string& value, const std::string& note = {}) {
    return fmt::format("  {:<34}{:>28}{}\n", name, value, note);
  };
  const char* what = t.link == LinkBytes{} ? "disks" : t.space > 0 ? "link and disks" : "link";
  auto out = fmt::format("  {} of a rank{}\n", what, p.pipeline > 1 ? fmt::format(" of stage {}", t.stage) : "");
  for (const auto& folder : t.folders)
    out += row("in " + base::one_line(folder.path), base::size_text(folder.space, sizes),
               folder.rates.both > 0 ? rates_text(folder.rates) : "");
  if (t.disk_seconds)
    out += row("moving a step's bytes", base::duration_text(*t.disk_seconds),
               t.together ? "" : "  (folders were not measured together)");
  if (t.lacks_rates_of_folders) out += row("moving a step's bytes", "not known", "  (no rates of folders)");
  if (t.link_seconds) out += row("copying a step's bytes", base::duration_text(*t.link_seconds));
  if (t.lacks_rates_of_copies) out += row("copying a step's bytes", "not known", "  (no rates of copies)");
  if (t.compute_seconds)
    out += row("computing a step, at least", base::duration_text(*t.compute_seconds),
               fmt::format("  (at {} of products)", base::rate_text(*t.flops_per_second, "FLOP/s")));
  if (t.hiding_batch)
    out += row("hides from", base::count_text(hiding_tokens(p, t)) + " tokens a step",
               base::text("  ($global-batch {}; this step has {})", *t.hiding_batch,
                          base::count_text(p.global_batch * p.sequence)));
  else if (t.moving_seconds() && t.compute_seconds)
    out += row("hides from", "no step", "  (an accumulation step moves more than it hides)");
  const auto by = t.ranks_on_node > 1 ? fmt::format(" by {}", base::counted(t.ranks_on_node, "rank")) : std::string();
  for (const auto& folder : t.folders)
    if (const auto bytes = t.written_a_day(folder))
      out += row("written there a day" + by, base::size_text(std::llround(*bytes), sizes),
                 "  (" + base::one_line(folder.path) + ")");
    else
      out += row(fmt::format("written there in {} steps{}", base::count_text(many_steps), by),
                 base::size_text(written_in_many_steps(t, folder), sizes), "  (" + base::one_line(folder.path) + ")");
  if (t.folders.empty() && t.space > 0)
    out += row(fmt::format("written in {} steps", base::count_text(many_steps)),
               base::size_text(many_steps * t.step.written, sizes));
  return out;
}

nlohmann::ordered_json offload_time_json(const Plan& p, const OffloadTime& t) {
  nlohmann::ordered_json out{
      {"stage", t.stage}, {"space", t.space}, {"step_read", t.step.read}, {"step_written", t.step.written}};
  auto& folders = out["folders"] = nlohmann::ordered_json::array();
  for (const auto& folder : t.folders) {
    nlohmann::ordered_json j{{"folder", folder.path},
                             {"space", folder.space},
                             {"step_read", folder.step.read},
                             {"step_written", folder.step.written},
                             {"written_in_1000_steps", written_in_many_steps(t, folder)}};
    if (folder.rates.both > 0)
      j.update(
          {{"read_rate", folder.rates.read}, {"write_rate", folder.rates.written}, {"both_rate", folder.rates.both}});
    if (const auto bytes = t.written_a_day(folder)) j["written_a_day"] = *bytes;
    folders.push_back(std::move(j));
  }
  out["ranks_on_node"] = t.ranks_on_node;
  if (t.link != LinkBytes{}) out["step_down"] = t.link.down, out["step_up"] = t.link.up;
  if (t.link_seconds) out["link_seconds"] = *t.link_seconds;
  if (t.folders.empty()) out["written_in_1000_steps"] = many_steps * t.step.written;
  if (t.disk_seconds) out["disk_seconds"] = *t.disk_seconds;
  if (t.lacks_rates_of_folders) out["disk_seconds"] = nullptr;
  if (t.lacks_rates_of_copies) out["link_seconds"] = nullptr;
  if (t.flops_per_second) out["flops_per_second"] = *t.flops_per_second;
  if (t.compute_seconds) out["compute_seconds"] = *t.compute_seconds;
  if (t.hiding_batch) out["hides_from_tokens"] = hiding_tokens(p, t);
  else if (t.moving_seconds() && t.compute_seconds) out["hides_from_tokens"] = nullptr;
  return out;
}

}  // namespace trainyard::plan
