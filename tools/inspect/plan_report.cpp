// The report on a plan or profile: JSON files that name their format.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/prediction.h"
#include "libtrain/plan/stage_table.h"
#include "tools/common/plan_text.h"
#include "tools/common/profile_text.h"
#include "tools/inspect/report.h"

namespace trainyard::inspect {

namespace {

nlohmann::json parsed_plan(const std::string& text, const std::string& file) {
  try {
    return base::parse_json<nlohmann::json>(text, file);
  } catch (const base::InputError& e) {
    throw base::InputError(fmt::format("{} is neither a plan nor a profile: {}", file, e.what()), e.hint());
  }
}

// CheckError if the plan's predictions are not what follows from its settings.
void verify(const plan::Plan& p, const nlohmann::json& json, const std::string& file) {
  auto wrong = plan::other_prediction(p);
  const nlohmann::json reported = plan::report_json(p);
  for (const auto* key : plan::report_keys)
    if (wrong.empty() && json.contains(key) && json[key] != reported.value(key, nlohmann::json()))
      wrong = fmt::format("'{}' differs", key);
  if (!wrong.empty())
    throw base::CheckError(fmt::format("{} does not match its own settings: {}", file, wrong),
                           "make it anew with partition-model");
}

}  // namespace

Report plan_report(const std::string& file, const Options& options) {
  const auto text = base::read_file(file, base::largest_description);
  const auto j = parsed_plan(text, file);
  const auto format =
      j.is_object() && j.contains("format") && j["format"].is_string() ? j["format"].get<std::string>() : std::string();
  const auto name = format.substr(0, format.find('/'));
  if (name != "trainyard.plan" && name != "trainyard.profile")
    throw base::InputError(fmt::format("{} is neither a plan nor a profile{}", file,
                                       format.empty() ? "" : fmt::format(" (format {})", base::excerpt(format))),
                           "give a checkpoint, a run, a shard set or a plan");
  if (format != name + "/1")
    throw base::InputError(fmt::format("{}: format is {}, this build reads {}/1", file, base::excerpt(format), name),
                           "use the newer programs");
  Report report;
  report.json = {{"kind", name == "trainyard.plan" ? "plan" : "profile"}, {"path", file}, {"content", j}};
  if (name == "trainyard.profile") {
    refuse_verify(options, file, "a profile");
    const auto profile = plan::profile_from_json(text, file);
    report.text = fmt::format("profile {}  ({})\n{}\n{}", file, format, tools::profile_table(profile, options.sizes),
                              tools::profile_charts(profile, tools::terminal_columns(), tools::glyphs_of_terminal()));
    if (!profile.communication.empty()) report.drawing = [profile] { return tools::profile_svg(profile); };
    return report;
  }
  const auto plan = plan::plan_from_json(text, file);
  if (options.verify == Verify::everything) verify(plan, j, file);
  report.json["verified"] = options.verify == Verify::everything;
  report.json.update(nlohmann::json(plan::report_json(plan)));
  report.text = fmt::format("plan {}  ({})\n{}", file, format, tools::plan_table(plan, options.sizes));
  if (options.verify == Verify::everything)
    report.text += "\nverified: parameters, memory, traffic and FLOPs computed again are what the plan says\n";
  return report;
}

}  // namespace trainyard::inspect
