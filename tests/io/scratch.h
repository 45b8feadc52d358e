// A temporary folder that goes away with the test, and whole files as strings.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>

struct Scratch {
  std::string path;
  Scratch() {
    char name[] = "/tmp/trainyard-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
inline void spit(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary | std::ios::trunc) << content; }
