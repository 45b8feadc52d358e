// A folder that is removed when the test ends, and functions that read and write whole files.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdlib.h>
#include <string>
#include <system_error>

namespace trainyard::testing {

struct Scratch {
  std::string path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "trainyard-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
inline void spit(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace trainyard::testing
