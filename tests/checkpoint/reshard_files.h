// For tests of resharding: the call, a model of several blocks, and comparisons of files byte for byte.
#pragma once

#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/reshard.h"

#include <gtest/gtest.h>

#include <string>

namespace sample {

inline checkpoint::Reader whole(const std::string& path) {
  return checkpoint::Reader(path, checkpoint::Reader::Check::all_but_payloads);
}

inline checkpoint::ReshardResult reshard(const std::string& from, const std::string& to, checkpoint::NewLayout layout,
                                         checkpoint::ReshardOptions options = {}) {
  return checkpoint::reshard(whole(from), to, layout, options);
}

inline void expect_same_ranks(const std::string& found, const std::string& expected, const std::string& what) {
  for (const auto& entry : fs::directory_iterator(expected)) {
    const auto name = entry.path().filename().string();
    if (!name.ends_with(".h5") && name != "ranks.index") continue;
    EXPECT_TRUE(slurp(found + "/" + name) == slurp(expected + "/" + name)) << what << ": " << name;
  }
}

// Compares all files but the manifest byte for byte, and the manifests' records of tensors and files.
inline void expect_same_files(const std::string& found, const std::string& expected, const std::string& what) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(expected)) {
    const auto name = entry.path().filename().string();
    ++files;
    if (name == "manifest.json") continue;
    EXPECT_TRUE(slurp(found + "/" + name) == slurp(expected + "/" + name)) << what << ": " << name;
  }
  for (const auto& entry : fs::directory_iterator(found)) {
    --files;
    EXPECT_TRUE(fs::exists(expected + "/" + entry.path().filename().string())) << what << ": " << entry.path();
  }
  EXPECT_EQ(files, 0) << what;
  auto a = nlohmann::json::parse(slurp(found + "/manifest.json")),
       b = nlohmann::json::parse(slurp(expected + "/manifest.json"));
  for (auto* j : {&a, &b}) j->erase("plan"), j->erase("crc32c_of_the_above");
  EXPECT_EQ(a, b) << what;
}

// Some 800,000 parameters: payloads of several blocks, and chunks that end inside tensors.
inline plan::ModelConfig middling() {
  auto m = gpt();
  m.layers = 2, m.hidden = 128, m.heads = 4, m.kv_heads = 4, m.ffn = 1024, m.vocabulary = 1031;
  return m;
}

}  // namespace sample
