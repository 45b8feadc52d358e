// The report on a set of token shards.
#include "libtrain/base/error.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/io/hdf5_file.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <algorithm>
#include <filesystem>

namespace trainyard::inspect {

Report shards_report(const std::string& folder, Verify verify) {
  if (verify == Verify::yes) throw base::Unsupported("this build verifies checkpoints and runs, not shard sets");
  const auto index = nlohmann::json::parse(io::read_file(folder + "/index.json"), nullptr, false);
  if (!index.is_object()) throw base::InputError(fmt::format("{}/index.json is no JSON object", folder), "make the set again with shard-data");
  Report report;
  report.json = {{"kind", "shards"}, {"path", folder}, {"index", index}};
  report.text = fmt::format("token shards {}\n{}", folder, leaves(index, 2));
  return report;
}

}  // namespace trainyard::inspect
