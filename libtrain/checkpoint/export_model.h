// Export: writes a checkpoint as a model that transformers loads.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/checkpoint/export_tokens.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/checkpoint/reader.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

struct ExportOptions {
  base::Existing existing = base::Existing::refuse;  // replace: only a model that this program wrote
  int threads = 1;
  std::optional<base::DType> dtype;        // unset: the working dtype of the checkpoint
  std::int64_t max_shard = 5'000'000'000;  // most bytes of tensors in a file, unless one tensor has more
  std::function<std::int64_t(const std::string& folder)> free_bytes;  // as in NewCheckpointOptions
  ReadTokens read_tokens;  // unset: names are those of added tokens in a tokenizer.json
  // Receives the bytes written and read back so far, and their total; as in ReshardOptions.
  std::function<void(std::int64_t done, std::int64_t total)> watch;
};

struct ExportResult {
  const Family* family = nullptr;
  base::DType dtype = base::DType::f32;
  std::vector<std::string> notes;       // sentences about what is left out
  std::vector<std::string> files;       // files with tensors
  std::vector<std::string> warnings;    // sentences about files and tokens
  std::vector<std::string> companions;  // files about tokens
  std::size_t tensors = 0;
  std::int64_t bytes_read = 0, bytes_written = 0;  // of weights
};

// Exports the weights in the highest precision that the checkpoint has (the f32 master), rounded once. They are written
// slab by slab into files that already have their headers. Then the files are read back and compared with what was
// sent; only then does the folder get its name. Throws InputError for a model that no family of transformers can hold,
// and for a weight that `dtype` cannot represent.
ExportResult export_model(const Reader& source, const std::string& destination, const ExportOptions& options);

}  // namespace trainyard::checkpoint
