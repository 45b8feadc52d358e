// The report on a plan or profile: JSON files that name their format.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/profile.h"
#include "tools/common/plan_text.h"
#include "tools/common/profile_text.h"
#include "tools/inspect/report.h"

namespace trainyard::inspect {

namespace {

nlohmann::json json_of(const std::string& text, const std::string& file) {
  try {
    return base::parse_json<nlohmann::json>(text, file);
  } catch (const base::InputError& e) {
    throw base::InputError(fmt::format("{} is neither a plan nor a profile: {}", file, e.what()), e.hint());
  }
}

}  // namespace

Report plan_report(const std::string& file, const Options& options) {
  const auto text = io::read_file(file, base::largest_description);
  const auto j = json_of(text, file);
  const auto format = j.is_object() && j.contains("format") && j["format"].is_string() ? j["format"].get<std::string>() : std::string();
  const auto name = format.substr(0, format.find('/'));
  if (name != "trainyard.plan" && name != "trainyard.profile")
    throw base::InputError(fmt::format("{} is neither a plan nor a profile{}", file, format.empty() ? "" : fmt::format(" (format {})", base::excerpt(format))),
                           "give a checkpoint, a run, a shard set or a plan");
  if (format != name + "/1") throw base::InputError(fmt::format("{}: format is {}, this build reads {}/1", file, base::excerpt(format), name), "use the newer programs");
  Report report;
  report.json = {{"kind", name == "trainyard.plan" ? "plan" : "profile"}, {"path", file}, {"content", j}};
  if (name == "trainyard.profile") {
    const auto profile = plan::profile_from_json(text, file);
    report.text = fmt::format("profile {}  ({})\n{}\n{}", file, format, tools::profile_table(profile, options.sizes), tools::profile_charts(profile, tools::terminal_columns(), tools::glyphs_of_terminal()));
    return report;
  }
  report.text = fmt::format("plan {}  ({})\n{}", file, format, tools::plan_table(plan::plan_from_json(text, file), options.sizes));
  return report;
}

}  // namespace trainyard::inspect
