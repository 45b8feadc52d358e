// Folders for what an offload has on disk, and what each of them gets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Folders share the extents of a rank by weight (base/storage_stripes.h). Weights may be measured speeds.
struct OffloadFolder {
  std::string path;
  double weight = 1;
  bool operator==(const OffloadFolder&) const = default;
};

// Reads "/local/nvme:3,/scratch/me": folders with commas between them, and spaces around them. A number behind a
// folder's last colon is its weight, else the weight is 1; so a folder whose name ends like that is given with :1
// behind it. Empty for an empty text. UsageError, whose message begins with `spelled`, for a folder without a name, one
// that comes twice (also as "./a" and "a"), a ~ that no shell has replaced, and a weight that is not above 0 or is
// infinite. Asks no file system.
std::vector<OffloadFolder> offload_folders(const std::string& text, const std::string& spelled);

// The path without "." and doubled slashes. The file system is not asked: the folders may be of another machine.
std::string plain_path(const std::string& path);

// The text that offload_folders reads, with weights of three digits; the least weight is 1.
std::string folders_text(const std::vector<OffloadFolder>& folders);

// Bytes of a rank's file in each folder, padding included, of a storage with these extents (plan/disk_use.h). There is
// at least one folder.
std::vector<std::int64_t> folder_bytes(const std::vector<std::int64_t>& extents,
                                       const std::vector<OffloadFolder>& folders);

}  // namespace trainyard::plan
