// The safetensors format: 8 bytes with the length of a header, the header (JSON: of each tensor its type, shape and
// range of bytes), then the bytes of all tensors, one behind the other. A model is one such file, or several with an
// index.
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
  std::string dtype;                   // as the format calls it: "F32", "BF16"
  std::vector<std::int64_t> shape;     // empty: a single number
  std::int64_t offset = 0, bytes = 0;  // in the file
};

struct SafetensorsHeader {
  std::vector<SafeTensor> tensors;              // as they lie in the file
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Bytes of an element; 0 for a type that the format does not have or that is no whole number of bytes.
std::int64_t safetensors_element_bytes(std::string_view dtype);

// Of the JSON text, which is followed by `data_bytes` bytes up to the end of the file and begins 8 bytes behind its
// start. InputError that begins with `where`: no JSON of this form, a name twice, an unknown type, a shape that does
// not make the range, ranges that overlap, leave a hole, or are not all of the data.
SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes, const std::string& where);

// Both of a file that is to be written: the tensors get their offsets, in the order given; returns the first bytes of
// the file, the length among them, filled up with spaces so that the data begin at a multiple of 8.
std::string make_safetensors_header(SafetensorsHeader& header);

// A file, its header read and checked, its data read with `file`.
struct SafetensorsFile {
  BulkFile file;
  SafetensorsHeader header;
  explicit SafetensorsFile(const std::string& path);
};

inline constexpr const char* safetensors_name = "model.safetensors";
inline constexpr const char* safetensors_index_name = "model.safetensors.index.json";
std::string safetensors_shard_name(std::size_t shard,
                                   std::size_t shards);  // from 0: "model-00001-of-00003.safetensors"
bool is_safetensors_shard_name(std::string_view name);

// All tensors of a model: a folder with either of the two names above, or the path of a file or an index.
class SafetensorsModel {
 public:
  // InputError for what is not there or wrong in itself; with an index for each tensor that does not lie in the file
  // that it says, or that it does not name.
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
