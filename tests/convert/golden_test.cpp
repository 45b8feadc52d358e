// Models that transformers made (tests/golden/hugging_face_golden.py). Imported, they give the same logits, and causal
// models the same greedy continuations. Exported again, every tensor has the same bytes.
#include "tools/generate/language_model.h"

#include "libtrain/base/json.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/io/safetensors.h"
#include "tests/model/small_model.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;

namespace golden_test {

struct Model {
  const char* name;
  base::DType type;      // of its tensors
  base::DType imported;  // the checkpoint's dtype by default
  const char* architecture;
};
constexpr Model models[] = {
    {"gpt2", base::DType::f32, base::DType::f32, "GPT2LMHeadModel"},
    {"gpt2-untied", base::DType::f16, base::DType::f32, "GPT2LMHeadModel"},
    {"llama-2", base::DType::f32, base::DType::f32, "LlamaForCausalLM"},       // three files
    {"llama-3", base::DType::bf16, base::DType::bf16, "LlamaForCausalLM"},     // grouped queries
    {"llama-3-tied", base::DType::f32, base::DType::f32, "LlamaForCausalLM"},  // with biases
    {"llama-3.1", base::DType::f32, base::DType::f32, "LlamaForCausalLM"},
    {"llama-linear", base::DType::f32, base::DType::f32, "LlamaForCausalLM"},  // biases of attention alone
    {"mistral", base::DType::f32, base::DType::f32, "MistralForCausalLM"},
    {"mixtral", base::DType::f32, base::DType::f32, "MixtralForCausalLM"},
    {"qwen2", base::DType::f32, base::DType::f32, "Qwen2ForCausalLM"},  // the last layers have a window
    {"qwen2-yarn", base::DType::f32, base::DType::f32, "Qwen2ForCausalLM"},
    {"qwen3", base::DType::f32, base::DType::f32, "Qwen3ForCausalLM"},
    {"qwen3-moe", base::DType::f32, base::DType::f32, "Qwen3MoeForCausalLM"},  // the first layer is dense
    {"olmo2", base::DType::f32, base::DType::f32, "Olmo2ForCausalLM"},
    {"olmoe", base::DType::f32, base::DType::f32, "OlmoeForCausalLM"},
    {"phi3", base::DType::f32, base::DType::f32, "Phi3ForCausalLM"},  // half of each head rotates
    {"gpt-neox", base::DType::f32, base::DType::f32, "GPTNeoXForCausalLM"},
    {"gpt-neox-sequential", base::DType::f32, base::DType::f32, "GPTNeoXForCausalLM"},
    {"gemma2", base::DType::f32, base::DType::f32, "Gemma2ForCausalLM"},
    {"gemma3", base::DType::f32, base::DType::f32, "Gemma3ForCausalLM"},
    {"roberta", base::DType::f32, base::DType::f32, "RobertaForMaskedLM"},
    {"bert", base::DType::f32, base::DType::f32, "BertForMaskedLM"},
    {"bert-new-gelu", base::DType::bf16, base::DType::bf16, "BertForMaskedLM"},  // two files
    {"t5", base::DType::f32, base::DType::f32, "T5ForConditionalGeneration"},    // eight files
    {"t5-v1.1", base::DType::bf16, base::DType::bf16, "T5ForConditionalGeneration"},
    {"mt5", base::DType::f32, base::DType::f32, "MT5ForConditionalGeneration"}};

std::string golden(const Model& model) { return std::string(GOLDEN) + "/" + model.name; }

checkpoint::ImportResult import(const std::string& from, const std::string& to, int threads = 1) {
  checkpoint::ImportOptions o;
  o.threads = threads;
  return checkpoint::import_model(from, to, o);
}

// The largest difference from the logits of transformers.
double worst_of(std::span<const float> logits, const nlohmann::json& row) {
  EXPECT_EQ(row.size(), logits.size());
  double worst = 0;
  for (std::size_t j = 0; j < row.size(); ++j)
    worst = std::max(worst, std::abs(row[j].get<double>() - static_cast<double>(logits[j])));
  return worst;
}

// Of all positions at once: of models that see both ways, and of models with an encoder, whose decoder reads the token
// of its beginning and the prompt.
void compare_whole(checkpoint::Reader& reader, const nlohmann::json& expected) {
  const auto& m = reader.state().model;
  test::PlainStore store(m, base::DType::f32, 0);
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u) {
    std::vector<float> flat(static_cast<std::size_t>(store.layouts[u].padded));
    reader.read_shard(checkpoint::Kind::model, store.flat_groups[u], plan::Topology(), 0, flat.data());
    std::copy(flat.begin(), flat.end(), store.master[u].begin());
  }
  store.publish();
  auto window = expected["prompt"].get<std::vector<std::int32_t>>();
  std::int64_t source = 0;
  if (m.encoder_layers > 0) window.insert(window.begin(), m.decoder_start);
  const auto n = static_cast<std::int64_t>(window.size());
  window.push_back(0);  // a target that nothing reads
  test::Batch batch({window}, false);
  if (m.encoder_layers > 0) {
    auto tokens = expected["source"].get<std::vector<std::int32_t>>();
    source = static_cast<std::int64_t>(tokens.size());
    tokens.push_back(0);
    batch.add_sources({tokens}, false);
  } else {
    batch.end_documents();
  }
  test::Runner runner(m, {{.batch = 1, .sequence = n}, {.dtype = base::DType::f32, .threads = 1}, source});
  std::vector<float> logits(static_cast<std::size_t>(m.stored_vocabulary()));
  for (std::int64_t i = 0; i < n; ++i) {
    runner.logits(store, batch, i, base::View::of(logits.data(), {1, m.stored_vocabulary()}));
    EXPECT_LT(worst_of({logits.data(), static_cast<std::size_t>(m.vocabulary)},
                       expected["logits"][static_cast<std::size_t>(i)]),
              1e-5)
        << i;
  }
}

std::string bytes_of(const io::SafetensorsModel::Place& place) {
  std::string bytes(static_cast<std::size_t>(place.tensor->bytes), '\0');
  place.file->file.read(place.tensor->offset, bytes.data(), place.tensor->bytes);
  return bytes;
}

TEST(HuggingFace, ImportedModelsComputeWhatTransformersDoes) {
  for (const auto& m : models) {
    SCOPED_TRACE(m.name);
    Scratch scratch;
    const auto path = scratch.path + "/imported";
    EXPECT_EQ(import(golden(m), path).manifest.state.dtype, m.imported);
    checkpoint::Reader reader(path);
    reader.verify_all();
    EXPECT_EQ(reader.state().model.name, m.name);
    const auto expected = base::parse_json<nlohmann::json>(slurp(golden(m) + "/expected.json"), m.name);
    if (!reader.state().model.attention.causal || reader.state().model.encoder_layers > 0) {
      compare_whole(reader, expected);
      continue;
    }
    generate::LanguageModel model(reader, 1);
    const auto prompt = expected["prompt"].get<std::vector<std::int32_t>>();
    double worst = 0;
    std::span<const float> logits;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      logits = i == 0 ? model.begin({prompt.data(), 1}) : model.append(prompt[i]);
      worst = std::max(worst, worst_of(logits, expected["logits"][i]));
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
      EXPECT_EQ(slurp(scratch.path + "/exported/config.json"), slurp(golden(m) + "/config.json"));
      // Without the recorded text, config.json is made from the model.
      std::vector<std::string> left_out;
      const auto& model = reader.state().model;
      const auto& family = checkpoint::family_of(model, result.family->model_type);
      EXPECT_EQ(family.model_type, result.family->model_type);
      const auto written = checkpoint::config_of(family, model, "float32", left_out);
      const auto original = base::parse_json(slurp(golden(m) + "/config.json"), "original");
      EXPECT_TRUE(left_out.empty()) << left_out.front();
      EXPECT_EQ(written["architectures"][0], m.architecture);
      for (const auto& [key, value] : written.items())
        if (original.contains(key) && !original[key].is_null() && !key.ends_with("_token_id") &&
            key != "max_window_layers") {
          EXPECT_EQ(original[key], value) << key;
        }
      const auto made = checkpoint::model_of_config(nlohmann::json(written), model.name, "made");
      EXPECT_TRUE(checkpoint::computes_same(made.model, model));
      const checkpoint::ImportResult again = import(scratch.path + "/exported", scratch.path + "/again");
      for (const auto& [path, tensor] : again.manifest.tensors)
        EXPECT_EQ(tensor.fingerprint, reader.manifest().tensors.at(path).fingerprint) << path;
      auto one = again.manifest.state.model, other = reader.state().model;
      one.name = other.name = "";
      EXPECT_EQ(one, other);
    }
}

}  // namespace golden_test
