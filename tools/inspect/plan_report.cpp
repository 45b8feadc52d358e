// The report on a plan or profile: JSON files that name their format.
#include "libtrain/base/error.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/plan/profile.h"
#include "tools/common/profile_text.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

namespace trainyard::inspect {

Report plan_report(const std::string& file) {
  const auto text = io::read_file(file, std::int64_t{64} << 20);
  const auto j = nlohmann::json::parse(text, nullptr, false);
  const auto format = j.is_object() ? j.value("format", std::string()) : std::string();
  const auto name = format.substr(0, format.find('/'));
  if (name != "trainyard.plan" && name != "trainyard.profile")
    throw base::InputError(fmt::format("{} is neither a plan nor a profile{}", file, format.empty() ? "" : fmt::format(" (format \"{}\")", format)),
                           "give a checkpoint, a run, a shard set or a plan");
  if (format != name + "/1") throw base::InputError(fmt::format("{}: format is {}, this build reads {}/1", file, format, name), "use the newer programs");
  Report report;
  report.json = {{"kind", name == "trainyard.plan" ? "plan" : "profile"}, {"path", file}, {"content", j}};
  if (name == "trainyard.profile") {
    const auto profile = plan::profile_from_json(text, file);
    report.text = fmt::format("profile {}  ({})\n{}\n{}", file, format, tools::profile_table(profile), tools::profile_charts(profile, tools::terminal_columns(), tools::glyphs_of_terminal()));
    return report;
  }
  report.text = fmt::format("plan {}  ({})\n{}", file, format, leaves(j, 2));
  return report;
}

}  // namespace trainyard::inspect
