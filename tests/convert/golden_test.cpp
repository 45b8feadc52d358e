// Models that transformers made (tests/golden/hugging_face_golden.py), imported: the same logits and greedy
// continuations; exported again: the very bytes of every tensor.
#include "tools/generate/language_model.h"

#include "libtrain/base/json.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/io/safetensors.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;

namespace {

struct Model {
  const char* name;
  checkpoint::WeightType type;  // of its tensors
  base::DType imported;         // what the checkpoint is by default
  const char* architecture;
};
constexpr Model models[] = {
    {"gpt2", checkpoint::WeightType::f32, base::DType::f32, "GPT2LMHeadModel"},
    {"gpt2-untied", checkpoint::WeightType::f16, base::DType::f32, "GPT2LMHeadModel"},
    {"llama-2", checkpoint::WeightType::f32, base::DType::f32, "LlamaForCausalLM"},      // three files
    {"llama-3", checkpoint::WeightType::bf16, base::DType::bf16, "LlamaForCausalLM"},    // grouped queries
    {"llama-3-tied", checkpoint::WeightType::f32, base::DType::f32, "LlamaForCausalLM"}  // with biases
};

std::string golden(const Model& model) { return std::string(GOLDEN) + "/" + model.name; }

checkpoint::ImportResult import(const std::string& from, const std::string& to, int threads = 1) {
  checkpoint::ImportOptions o;
  o.threads = threads;
  return checkpoint::import_model(from, to, o);
}

std::string bytes_of(const io::SafetensorsModel::Place& place) {
  std::string bytes(static_cast<std::size_t>(place.tensor->bytes), '\0');
  place.file->file.read(place.tensor->offset, bytes.data(), place.tensor->bytes);
  return bytes;
}

}  // namespace

TEST(HuggingFace, ImportedModelsComputeWhatTransformersDoes) {
  for (const auto& m : models) {
    SCOPED_TRACE(m.name);
    Scratch scratch;
    const auto path = scratch.path + "/imported";
    EXPECT_EQ(import(golden(m), path).manifest.state.dtype, m.imported);
    checkpoint::Reader reader(path);
    reader.verify_all();
    EXPECT_EQ(reader.state().model.name, m.name);
    generate::LanguageModel model(reader, 1);
    const auto expected = base::parse_json(slurp(golden(m) + "/expected.json"), m.name);
    const auto prompt = expected["prompt"].get<std::vector<std::int32_t>>();
    double worst = 0;
    std::span<const float> logits;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      logits = i == 0 ? model.begin({prompt.data(), 1}) : model.append(prompt[i]);
      const auto row = expected["logits"][i].get<std::vector<double>>();
      ASSERT_EQ(row.size(), logits.size());
      for (std::size_t j = 0; j < row.size(); ++j)
        worst = std::max(worst, std::abs(row[j] - static_cast<double>(logits[j])));
    }
    EXPECT_LT(worst, 1e-5);
    std::vector<std::int32_t> following;
    for (const auto wanted = expected["greedy"].size(); following.size() < wanted;) {
      following.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      if (following.size() < wanted) logits = model.append(following.back());
    }
    EXPECT_EQ(following, expected["greedy"].get<std::vector<std::int32_t>>());
  }
}

TEST(HuggingFace, ExportedAgainEveryTensorIsWhatTransformersWrote) {
  for (const auto& m : models)
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(m.name);
      Scratch scratch;
      import(golden(m), scratch.path + "/imported", threads);
      const checkpoint::Reader reader(scratch.path + "/imported");
      checkpoint::ExportOptions o;
      o.threads = threads;
      o.dtype = m.type;
      o.max_shard = threads == 1 ? o.max_shard : 3000;
      const auto result = checkpoint::export_model(reader, scratch.path + "/exported", o);
      EXPECT_EQ(result.files.size() > 1, threads == 3);
      const io::SafetensorsModel expected(golden(m)), found(scratch.path + "/exported");
      ASSERT_EQ(found.tensors().size(), expected.tensors().size());
      for (const auto& [name, place] : expected.tensors()) {
        ASSERT_TRUE(found.tensors().contains(name)) << name;
        const auto& other = found.tensors().at(name);
        EXPECT_EQ(other.tensor->dtype, place.tensor->dtype) << name;
        EXPECT_EQ(other.tensor->shape, place.tensor->shape) << name;
        EXPECT_TRUE(bytes_of(other) == bytes_of(place)) << name;
      }
      const auto written = base::parse_json(slurp(scratch.path + "/exported/config.json"), "written");
      const auto original = base::parse_json(slurp(golden(m) + "/config.json"), "original");
      EXPECT_EQ(written["architectures"][0], m.architecture);
      for (const auto& [key, value] : written.items())
        if (original.contains(key) && !original[key].is_null() && !key.ends_with("_token_id")) {
          EXPECT_EQ(original[key], value) << key;
        }
      const checkpoint::ImportResult again = import(scratch.path + "/exported", scratch.path + "/again");
      for (const auto& [path, tensor] : again.manifest.tensors)
        EXPECT_EQ(tensor.fingerprint, reader.manifest().tensors.at(path).fingerprint) << path;
      auto one = again.manifest.state.model, other = reader.state().model;
      one.name = other.name = "";
      EXPECT_EQ(one, other);
    }
}
