// The text of folders, and their stripes.
#include "libtrain/plan/offload_folders.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/storage_stripes.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr double least_weight = 1e-6, most_weight = 1e15;  // bytes a second are weights, too

// What reads as a number, also one that is no weight: nan, inf, -1, 1e999.
std::optional<double> weight_number_in(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || stop != end || error == std::errc::invalid_argument) return {};
  return error == std::errc() ? value : std::numeric_limits<double>::infinity();
}

}  // namespace

std::string plain_path(const std::string& path) {
  std::filesystem::path out;
  for (const auto& part : std::filesystem::path(path))
    if (!part.empty() && part != ".") out /= part;
  return out.string();
}

std::vector<OffloadFolder> offload_folders(const std::string& text, const std::string& spelled) {
  std::vector<OffloadFolder> out;
  if (text.empty()) return out;
  const auto before = fmt::format("{} {}", spelled, base::excerpt(text));
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw base::UsageError(fmt::format("{}: {}", before, what), hint);
  };
  constexpr const char* once = "name each folder once, with commas between them";
  std::map<std::string, std::string> seen;
  for (auto& part : base::comma_separated(text)) {
    OffloadFolder folder{std::move(part)};
    if (const auto colon = folder.path.rfind(':'); colon != std::string::npos)
      if (const auto weight = weight_number_in(std::string_view(folder.path).substr(colon + 1))) {
        if (!(*weight >= least_weight && *weight <= most_weight))
          refuse(
              fmt::format("{} is no weight", base::excerpt(folder.path.substr(colon + 1))),
              fmt::format("a weight is a number above 0, such as the folder's speed: /local/nvme:3,/scratch/me:1; if "
                          "it belongs to the name, a weight follows: {}:1",
                          base::one_line(folder.path)));
        folder.weight = *weight;
        folder.path.resize(colon);
      }
    if (folder.path.empty()) refuse("a folder without a name", once);
    if (folder.path.starts_with("~/") || folder.path == "~")
      refuse(fmt::format("the shell did not replace ~ in {}", base::one_line(folder.path)),
             "it does so at the beginning of a word alone: write $HOME; ./~ is a folder of this name");
    if (const auto [first, is_new] = seen.emplace(plain_path(folder.path), folder.path); !is_new)
      refuse(first->second == folder.path
                 ? fmt::format("{} comes twice", base::one_line(folder.path))
                 : fmt::format("{} and {} are one folder", base::one_line(first->second), base::one_line(folder.path)),
             once);
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
