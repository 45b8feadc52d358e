// Golden models of transformers in memory, for tests that change, write and import them.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/io/safetensors.h"
#include "tests/io/safetensors_sample.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard::testing {

using safetensors_sample::Tensor;

// A golden model in memory, to be changed and written elsewhere.
struct Loaded {
  nlohmann::json config;
  std::vector<Tensor> tensors;

  explicit Loaded(const std::string& name) {
    const auto folder = std::string(GOLDEN) + "/" + name;
    config = base::parse_json<nlohmann::json>(slurp(folder + "/config.json"), name);
    const io::SafetensorsModel model(folder);
    for (const auto& [tensor, place] : model.tensors()) {
      std::string bytes(static_cast<std::size_t>(place.tensor->bytes), '\0');
      place.file->file.read(place.tensor->offset, bytes.data(), place.tensor->bytes);
      tensors.push_back({tensor, place.tensor->dtype, place.tensor->shape, bytes});
    }
  }
  Tensor& at(const std::string& name) {
    for (auto& t : tensors)
      if (t.name == name) return t;
    throw std::logic_error(name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }
  void write(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    spit(folder + "/config.json", config.dump());
    spit(folder + "/model.safetensors", safetensors_sample::file_of(tensors));
  }
};

inline checkpoint::ImportResult import(const std::string& from, const std::string& to,
                                       checkpoint::ImportOptions o = {}) {
  return checkpoint::import_model(from, to, o);
}

// The message with which the import of the model is refused (exit 3), leaving nothing behind; "" if it is accepted.
inline std::string refusal(const Loaded& model) {
  Scratch scratch;
  model.write(scratch.path + "/model");
  try {
    import(scratch.path + "/model", scratch.path + "/imported");
    return "";
  } catch (const base::InputError& e) {
    EXPECT_FALSE(e.hint().empty()) << e.what();
    EXPECT_EQ(e.hint().find("of these programs"), std::string::npos) << "another program wrote the model: " << e.hint();
    EXPECT_LT(std::string(e.what()).size(), 2000u);
    EXPECT_FALSE(std::filesystem::exists(scratch.path + "/imported"));
    EXPECT_FALSE(std::filesystem::exists(scratch.path + "/imported.partial"));
    return e.what();
  }
}

inline void expect_refused(const Loaded& model, const std::string& words) {
  const auto said = refusal(model);
  EXPECT_NE(said.find(words), std::string::npos) << "said: " << said << "\n  not: " << words;
}

}  // namespace trainyard::testing
