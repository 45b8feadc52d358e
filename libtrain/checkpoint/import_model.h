// Import: converts a Hugging Face model to a checkpoint that holds only its weights.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/checkpoint/new_checkpoint.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

struct ImportOptions {
  base::Existing existing = base::Existing::refuse;
  int threads = 1;
  std::vector<std::string> ignored_keys;  // of config.json, which may be unknown here
  std::optional<base::DType> dtype;       // unset: that of all weights if a run can compute in it, else f32
  nlohmann::json versions = nlohmann::json::object();
  std::function<std::string(base::DType)> isa;
  // Why these programs cannot read a tokenizer file; empty if they can. If unset, this is not checked.
  std::function<std::string(const std::string& path)> tokenizer_problem;
  std::function<std::int64_t(const std::string& folder)> free_bytes;  // as in NewCheckpointOptions
  std::function<void(std::int64_t done, std::int64_t total)> watch;   // bytes of the source; as in ReshardOptions
};

struct ImportResult {
  const Family* family = nullptr;
  std::vector<std::string> notes;  // sentences about what is skipped
  std::size_t files = 0;           // of the source
  std::int64_t bytes_read = 0, bytes_written = 0;
  Manifest manifest;
};

// `source` is a folder with config.json and its tensors (io::SafetensorsModel), or the path of a tensor file beside
// config.json. Throws InputError before anything is written. It lists tensors that are missing, unknown, or of another
// shape or type. A tied model whose file holds a different head is an InputError too. Tensors are read once, slab by
// slab, so memory is about 30 MB a thread. What was written is read back and compared with what was read; only then
// does the checkpoint get its name.
ImportResult import_model(const std::string& source, const std::string& destination, const ImportOptions& options);

}  // namespace trainyard::checkpoint
