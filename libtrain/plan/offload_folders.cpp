// The text of folders, and their stripes.
#include "libtrain/plan/offload_folders.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/storage_stripes.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace trainyard::plan {

namespace {

constexpr double least_weight = 1e-6, most_weight = 1e15;  // bytes a second are weights, too

// What looks like a number: a folder may be called "run:nan".
std::optional<double> weight_in(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return {};
  return base::parsed_number<double>(text);
}

}  // namespace

std::vector<OffloadFolder> offload_folders(const std::string& text, const std::string& spelled) {
  std::vector<OffloadFolder> out;
  if (text.empty()) return out;
  const auto before = fmt::format("{} {}", spelled, base::excerpt(text));
  const auto refuse = [&](const std::string& what, const char* hint) {
    throw base::UsageError(fmt::format("{}: {}", before, what), hint);
  };
  constexpr const char* once = "name each folder once, with commas between them";
  std::set<std::string> seen;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    OffloadFolder folder{text.substr(at, end - at)};
    at = end + 1;
    if (const auto colon = folder.path.rfind(':'); colon != std::string::npos)
      if (const auto weight = weight_in(std::string_view(folder.path).substr(colon + 1))) {
        if (!(*weight >= least_weight && *weight <= most_weight))
          refuse(fmt::format("{} is no weight", base::excerpt(folder.path.substr(colon + 1))),
                 "a weight is a number above 0, such as the folder's speed: /local/nvme:3,/scratch/me:1");
        folder.weight = *weight;
        folder.path.resize(colon);
      }
    if (folder.path.empty()) refuse("a folder without a name", once);
    if (!seen.insert(base::without_slashes(folder.path)).second)
      refuse(fmt::format("{} comes twice", base::one_line(folder.path)), once);
    out.push_back(std::move(folder));
  }
  return out;
}

std::string folders_text(const std::vector<OffloadFolder>& folders) {
  double least = most_weight;
  for (const auto& folder : folders) least = std::min(least, folder.weight);
  std::string out;
  for (const auto& folder : folders)
    out += fmt::format("{}{}:{:.3g}", out.empty() ? "" : ",", folder.path, folder.weight / least);
  return out;
}

std::vector<std::int64_t> folder_bytes(const std::vector<std::int64_t>& extents,
                                       const std::vector<OffloadFolder>& folders) {
  std::vector<double> weights;
  for (const auto& folder : folders) weights.push_back(folder.weight);
  return base::StorageStripes(extents, weights).folder_bytes();
}

}  // namespace trainyard::plan
