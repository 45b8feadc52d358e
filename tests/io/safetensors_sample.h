// Makes safetensors files byte by byte, without the code under test.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace safetensors_sample {

struct Tensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

inline std::string with_length(const std::string& header) {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header;
}

inline std::string file_of(const std::vector<Tensor>& tensors) {
  auto header = nlohmann::ordered_json::object();
  std::string data;
  for (const auto& t : tensors) {
    header[t.name] = {
        {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  return with_length(header.dump()) + data;
}

inline std::string floats(const std::vector<float>& values) {
  std::string out(values.size() * 4, '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace safetensors_sample
