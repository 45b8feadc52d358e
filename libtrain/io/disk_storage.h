// DiskStorage: a base::Storage in files of one or several folders, such as local NVMe drives.
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/io/disk_queue.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::io {

// Extents are divided over folders by weight (base/storage_stripes.h), which may be a folder's measured speed.
struct DiskFolder {
  std::string path;
  double weight = 1;
};

// automatic: io_uring, or threads where this build or the system has no io_uring, which the log says once.
enum class DiskEngine { automatic, io_uring, threads };

struct DiskStorageOptions {
  std::vector<DiskFolder> folders;
  std::vector<base::StorageExtent> extents;
  int depth = 16;  // requests of at most one stripe that are under way at once in each folder
  DiskEngine engine = DiskEngine::automatic;
  int threads = 8;  // of each folder, where threads read and write
  // What tests put around the queue of each folder.
  std::function<std::unique_ptr<DiskQueue>(std::unique_ptr<DiskQueue>)> around_queue = {};
  std::string setting = {};  // that names the folders, for hints (DiskFile)
};

// Each folder has a file without a name, as large as its share, and a thread that issues requests, looks at each
// completion, and keeps and compares the CRC32C of each block. Nothing is synced: the content ends with the process.
class DiskStorage final : public base::Storage {
 public:
  // EnvironmentError where a folder lacks space or cannot be written, or has not the engine that was asked for.
  explicit DiskStorage(DiskStorageOptions options);
  // Ends transfers that are under way, and drops those that are not.
  ~DiskStorage() override;

  const std::vector<base::StorageExtent>& extents() const override;
  void use_memory(std::span<std::byte> memory) override;
  Ticket read(int extent, std::int64_t first, std::int64_t count, std::byte* to) override;
  Ticket write(int extent, std::int64_t first, std::int64_t count, const std::byte* from) override;
  void wait(Ticket ticket) override;
  void wait_all() override;
  base::StorageTotals totals() const override;
  std::int64_t space() const override;
  double wait_seconds() const override;

  std::string engine() const;                              // "io_uring" or "threads"
  std::vector<base::StorageTotals> folder_totals() const;  // in the order of the folders
  const std::vector<std::int64_t>& folder_bytes() const;   // of the files

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainyard::io
