// The safetensors format: 8 bytes with the length of a header, the header, then the bytes of all tensors, one after the
// other. The header is JSON and gives each tensor's type, shape and byte range. A model is one such file, or several
// with an index.
#pragma once

#include "libtrain/io/bulk.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::io {

struct SafeTensor {
  std::string name;
  std::string dtype;                   // the format's name for it: "F32", "BF16"
  std::vector<std::int64_t> shape;     // empty: a single number
  std::int64_t offset = 0, bytes = 0;  // within the file
};

struct SafetensorsHeader {
  std::vector<SafeTensor> tensors;              // in the order of their data in the file
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Bytes of an element. 0 for a type that the format does not have, or whose elements are no whole number of bytes.
std::int64_t safetensors_element_bytes(std::string_view dtype);

// Parses the JSON text of a header. The text begins 8 bytes after the file's start, and `data_bytes` bytes follow it up
// to the file's end. InputError begins with `where`. It is thrown for:
// - text that is no JSON of this form, a name given twice, or an unknown type;
// - a shape that does not fit its byte range;
// - ranges that overlap, leave a hole, or do not cover all of the data.
SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes, const std::string& where);

// Prepares a file that is to be written. Sets the offsets of the tensors, in the order given, and returns the first
// bytes of the file, including the length. Spaces fill these bytes up so that the data begins at a multiple of 8.
std::string make_safetensors_header(SafetensorsHeader& header);

// A file whose header is read and checked. Read its data with `file`.
struct SafetensorsFile {
  BulkFile file;
  SafetensorsHeader header;
  explicit SafetensorsFile(const std::string& path);
};

inline constexpr const char* safetensors_name = "model.safetensors";
inline constexpr const char* safetensors_index_name = "model.safetensors.index.json";
// From 0: "model-00001-of-00003.safetensors".
std::string safetensors_shard_name(std::size_t shard, std::size_t shards);
bool is_safetensors_shard_name(std::string_view name);

// All tensors of a model. The path is a folder with either of the two names above, or a file, or an index.
class SafetensorsModel {
 public:
  // InputError for a path that does not exist or a file that is invalid. With an index, also for each tensor that is
  // not in the file that the index names, or that the index does not name.
  explicit SafetensorsModel(const std::string& path);

  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafeTensor* tensor = nullptr;
  };
  const std::map<std::string, Place>& tensors() const { return tensors_; }
  const std::string& folder() const { return folder_; }
  std::size_t files() const { return files_.size(); }

 private:
  void read_index(const std::string& path);

  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> tensors_;
};

}  // namespace trainyard::io
