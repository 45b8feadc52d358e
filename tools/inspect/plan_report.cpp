// The report on a plan or profile: JSON files that name their format.
#include "libtrain/base/error.h"
#include "libtrain/io/atomic_file.h"
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
  report.text = fmt::format("{} {}  ({})\n{}", name == "trainyard.plan" ? "plan" : "profile", file, format, leaves(j, 2));
  return report;
}

}  // namespace trainyard::inspect
