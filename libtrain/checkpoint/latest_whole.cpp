// Choosing among the checkpoints of a folder.
#include "libtrain/checkpoint/latest_whole.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"

#include <algorithm>
#include <utility>

namespace trainyard::checkpoint {

namespace {

Found latest_whole(const std::string& folder, Verify verify, const std::vector<std::string>& without) {
  std::vector<std::string> refused;
  for (auto& candidate : list(folder)) {
    if (std::find(without.begin(), without.end(), candidate.path) != without.end()) continue;
    try {
      const auto read = [&] {
        Reader reader(candidate.path);
        if (verify == Verify::everything) reader.verify_all();
      };
      reading({candidate.path}, read, Seen::listed);
      candidate.refused = std::move(refused);
      return candidate;
    } catch (const Removed&) {
      throw;  // a run that has saved a newer one removed this one
    } catch (const base::Unreadable&) {
      throw;  // taking an older checkpoint because of a passing trouble would lose the steps since
    } catch (const base::InputError& e) {
      refused.push_back(fmt::format("{}: {}", candidate.path, e.what()));
      base::log_warning("checkpoint {} is skipped: {}", candidate.path, e.what());
    }
  }
  Found none;
  none.refused = std::move(refused);
  return none;
}

}  // namespace

Found find_latest_whole(const std::string& folder, Verify verify, const std::vector<std::string>& without) {
  return looking_again({folder}, [&] { return latest_whole(folder, verify, without); });
}

}  // namespace trainyard::checkpoint
