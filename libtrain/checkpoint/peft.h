// Low-rank adapters in the form of the Python package peft: a folder with adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/reshard.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainyard::checkpoint {

struct PeftOptions {
  base::Existing existing = base::Existing::refuse;  // replace: only what this program wrote
  int threads = 1;
  // Export: of the tensors; unset: as the checkpoint has. Import: of the new checkpoint; unset: that of the base if all
  // tensors of the adapter have it, else f32.
  std::optional<base::DType> dtype;
  std::function<std::int64_t(const std::string& folder)> free_bytes;  // as in NewCheckpointOptions
  std::function<void(std::int64_t done, std::int64_t total)> watch;
};

struct PeftResult {
  const Family* family = nullptr;
  base::DType dtype = base::DType::f32;
  std::size_t tensors = 0;
  std::int64_t bytes_read = 0, bytes_written = 0;  // of weights
  std::int64_t rank = 0;  // import: of the adapter's files; the checkpoint has the next multiple of 8
};

// Writes the adapters of a checkpoint, in the names of the family that the model without adapters belongs to.
// UsageError for a checkpoint without adapters. InputError for an adapter on a layer that the family keeps joined with
// others.
PeftResult export_peft(const Reader& source, const std::string& destination, const PeftOptions& options);

// Writes a checkpoint of the weights alone: those of `source`, which has no adapters, and the adapters of the folder.
// InputError for a setting of adapter_config.json that would change results and has no meaning here, for missing
// layers, and for tensors of other shapes.
PeftResult import_peft(const Reader& source, const std::string& folder, const std::string& destination,
                       const PeftOptions& options);

}  // namespace trainyard::checkpoint
