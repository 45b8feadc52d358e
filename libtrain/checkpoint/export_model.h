// Export: a checkpoint becomes a model that transformers loads.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/checkpoint/reader.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

struct ExportOptions {
  base::Existing existing = base::Existing::refuse;  // replace: a model that this program wrote
  int threads = 1;
  std::optional<WeightType> dtype;         // nothing: the working dtype of the checkpoint
  std::int64_t max_shard = 5'000'000'000;  // bytes of tensors in a file, unless one tensor has more
  std::function<std::int64_t(const std::string& folder)> free_bytes;  // as NewCheckpointOptions
  // Bytes written and read back, and those to be; as ReshardOptions.
  std::function<void(std::int64_t done, std::int64_t total)> watch;
};

struct ExportResult {
  const Family* family = nullptr;
  WeightType dtype = WeightType::f32;
  std::vector<std::string> notes;  // sentences about what is left out
  std::vector<std::string> files;  // with tensors
  std::size_t tensors = 0;
  std::int64_t bytes_read = 0, bytes_written = 0;  // of weights
};

// The weights in the most digits that the checkpoint has (the f32 master), rounded once. Written slab by slab into
// files that have their header already; then read back and compared with what was sent there, or nothing gets the name.
// InputError for a model that no family of transformers can hold, and for a weight that `dtype` cannot.
ExportResult export_model(const Reader& source, const std::string& destination, const ExportOptions& options);

}  // namespace trainyard::checkpoint
