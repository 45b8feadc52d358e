// Import: a model of Hugging Face becomes a checkpoint that holds its weights alone.
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
  std::optional<base::DType> dtype;  // nothing: the smallest that holds the weights exactly, bf16 or f32
  nlohmann::json versions = nlohmann::json::object();
  std::function<std::string(base::DType)> isa;
  // Why a tokenizer's file cannot be read by these programs; empty: it can. Unset: nobody asks.
  std::function<std::string(const std::string& path)> tokenizer_problem;
  std::function<std::int64_t(const std::string& folder)> free_bytes;  // as NewCheckpointOptions
  std::function<void(std::int64_t done, std::int64_t total)> watch;   // bytes of the source; as ReshardOptions
};

struct ImportResult {
  const Family* family = nullptr;
  std::vector<std::string> notes;  // sentences about what is passed over
  std::size_t files = 0;           // of the source
  std::int64_t bytes_read = 0, bytes_written = 0;
  Manifest manifest;
};

// `source` is a folder with config.json and its tensors (io::SafetensorsModel), or the path of a tensor file beside
// config.json. InputError, before anything is written, that lists tensors that are missing, unknown or of another
// shape or type, and for a tied model with a head of its own. Tensors are read once, slab by slab, so that memory is
// some 30 MB a thread; what was written is read back and compared with what was read, or nothing gets the name.
ImportResult import_model(const std::string& source, const std::string& destination, const ImportOptions& options);

}  // namespace trainyard::checkpoint
