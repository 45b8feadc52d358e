// Adapters that peft made (tests/golden/peft_golden.py) beside models that transformers made. Imported, they give the
// logits and the gradients of PyTorch. Exported again, every tensor has the same bytes.
#include "libtrain/checkpoint/peft.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/io/safetensors.h"
#include "tests/model/small_model.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;

namespace peft_test {

struct Imported {
  explicit Imported(const std::string& name)
      : adapter(std::string(GOLDEN) + "/../peft/" + name), joined(scratch.path + "/joined"),
        expected(base::parse_json<nlohmann::json>(slurp(adapter + "/expected.json"), name)) {
    checkpoint::import_model(std::string(GOLDEN) + "/" + name, scratch.path + "/base", {});
    checkpoint::import_peft(checkpoint::Reader(scratch.path + "/base"), adapter, joined, {});
  }
  Scratch scratch;
  std::string adapter, joined;
  nlohmann::json expected;
};

std::unique_ptr<test::PlainStore> store_of(checkpoint::Reader& reader) {
  auto store = std::make_unique<test::PlainStore>(reader.state().model, base::DType::f32, 0);
  for (std::size_t u = 0; u < store->flat_groups.size(); ++u) {
    std::vector<float> flat(static_cast<std::size_t>(store->layouts[u].padded));
    reader.read_shard(checkpoint::Kind::model, store->flat_groups[u], plan::Topology(), 0, flat.data());
    std::copy(flat.begin(), flat.end(), store->master[u].begin());
  }
  store->publish();
  return store;
}

std::unique_ptr<test::Batch> batch_of(const Imported& golden, const plan::ModelConfig& m) {
  auto window = golden.expected["prompt"].get<std::vector<std::int32_t>>();
  window.push_back(golden.expected["last_target"].get<std::int32_t>());
  auto batch = std::make_unique<test::Batch>(std::vector<std::vector<std::int32_t>>{window}, false);
  if (!m.attention.causal) batch->end_documents();
  return batch;
}

constexpr const char* goldens[] = {"llama-2", "qwen2", "gemma2", "gpt2", "qwen3-moe", "bert"};

TEST(Peft, LogitsAreThoseOfPyTorch) {
  for (const char* name : goldens) {
    SCOPED_TRACE(name);
    const Imported golden(name);
    checkpoint::Reader reader(golden.joined);
    reader.verify_all();
    const auto& m = reader.state().model;
    const auto store = store_of(reader);
    const auto made = batch_of(golden, m);
    auto& batch = *made;
    const auto n = batch.micro.sequence();
    test::Runner runner(m, {1, n, base::DType::f32, 1});
    std::vector<float> logits(static_cast<std::size_t>(m.stored_vocabulary()));
    for (std::int64_t i = 0; i < n; ++i) {
      runner.logits(*store, batch, i, base::View::of(logits.data(), {1, m.stored_vocabulary()}));
      const auto& row = golden.expected["logits"][static_cast<std::size_t>(i)];
      for (std::size_t j = 0; j < row.size(); ++j) EXPECT_NEAR(logits[j], row[j].get<double>(), 1e-5) << i << " " << j;
    }
  }
}

// The norm of each gradient, and its first elements, by the name that peft gives the tensor. A rank that is filled up
// has gradients of zeros.
TEST(Peft, GradientsAreThoseOfPyTorch) {
  for (const char* name : goldens) {
    SCOPED_TRACE(name);
    const Imported golden(name);
    checkpoint::Reader reader(golden.joined);
    auto m = reader.state().model;
    if (!m.experts.count.empty()) m.experts.balance_loss = 0;  // PyTorch's loss is the cross-entropy alone
    const auto store = store_of(reader);
    const auto made = batch_of(golden, m);
    auto& batch = *made;
    test::Runner runner(m, {1, batch.micro.sequence(), base::DType::f32, 1});
    runner.train(*store, batch);
    std::vector<double> ours, theirs;  // norms
    for (std::size_t u = 0; u < store->flat_groups.size(); ++u)
      for (std::size_t p = 0; p < store->flat_groups[u].parameters.size(); ++p) {
        if (plan::is_frozen(store->flat_groups[u])) continue;
        double sum = 0;
        for (std::int64_t i = 0; i < store->flat_groups[u].parameters[p].count(); ++i) {
          const auto g = store->gradient_of(static_cast<int>(u), static_cast<int>(p), i);
          sum += g * g;
        }
        ours.push_back(std::sqrt(sum));
      }
    for (const auto& [key, of] : golden.expected["gradients"].items()) theirs.push_back(of[0].get<double>());
    ASSERT_EQ(ours.size(), theirs.size());
    std::sort(ours.begin(), ours.end()), std::sort(theirs.begin(), theirs.end());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-4 * (1 + theirs[i]));
  }
}

TEST(Peft, TheSameBytesComeBack) {
  for (const char* name : goldens) {
    if (std::string(name) == "qwen2") continue;  // its rank of 4 was filled up to 8
    SCOPED_TRACE(name);
    const Imported golden(name);
    const auto again = golden.scratch.path + "/again";
    checkpoint::export_peft(checkpoint::Reader(golden.joined), again, {});
    const io::SafetensorsFile was(golden.adapter + "/adapter_model.safetensors"),
        is(again + "/adapter_model.safetensors");
    EXPECT_EQ(is.header.tensors.size(), was.header.tensors.size());
    const auto bytes_of = [](const io::SafetensorsFile& file, const std::string& tensor) {
      for (const auto& t : file.header.tensors)
        if (t.name == tensor) {
          std::string bytes(static_cast<std::size_t>(t.bytes), '\0');
          file.file.read(t.offset, bytes.data(), t.bytes);
          return bytes;
        }
      return std::string("none");
    };
    for (const auto& t : was.header.tensors) EXPECT_TRUE(bytes_of(is, t.name) == bytes_of(was, t.name)) << t.name;
    const auto config = [](const std::string& folder) {
      return nlohmann::json::parse(slurp(folder + "/adapter_config.json"));
    };
    EXPECT_EQ(config(again)["r"], config(golden.adapter)["r"]);
    EXPECT_EQ(config(again)["lora_alpha"], config(golden.adapter)["lora_alpha"]);
    EXPECT_EQ(config(again)["fan_in_fan_out"], std::string(name) == "gpt2");
  }
}

// What peft 0.21 does (check_target_module_exists): it ignores the tensors of a module that the settings leave out.
TEST(Peft, TensorsThatPeftWouldIgnoreAreRefused) {
  const Scratch scratch;
  checkpoint::import_model(std::string(GOLDEN) + "/qwen2", scratch.path + "/base", {});
  const auto golden = std::string(GOLDEN) + "/../peft/qwen2";  // of q_proj and v_proj
  const auto adapter = scratch.path + "/adapter";
  std::filesystem::copy(golden, adapter, std::filesystem::copy_options::recursive);
  const auto refused = [&](const nlohmann::json& changes) -> std::string {
    auto config = nlohmann::json::parse(slurp(golden + "/adapter_config.json"));
    config.update(changes);
    trainyard::testing::spit(adapter + "/adapter_config.json", config.dump());
    try {
      checkpoint::import_peft(checkpoint::Reader(scratch.path + "/base"), adapter, scratch.path + "/joined", {});
      std::filesystem::remove_all(scratch.path + "/joined");
      return {};
    } catch (const base::InputError& e) {
      EXPECT_FALSE(std::filesystem::exists(scratch.path + "/joined"));
      return e.what();
    }
  };
  using nlohmann::json;
  for (const auto& all :
       {json{{"target_modules", {"q_proj", "v_proj", "lm_head"}}}, json{{"target_modules", "all-linear"}},
        json{{"target_modules", R"(.*\.(?:q|v)_proj$)"}}, json{{"target_modules", nullptr}},
        json{{"target_modules", {"self_attn.q_proj", "v_proj"}}}, json{{"exclude_modules", {"k_proj", "_proj"}}},
        json{{"layers_to_transform", {0, 1, 2}}, {"layers_pattern", "layers"}},
        json{{"layers_to_transform", 0}, {"target_modules", ".*_proj"}}})
    EXPECT_EQ(refused(all), "") << all;
  for (const auto& [changes, said] :
       {std::pair(json{{"target_modules", {"q_proj"}}}, "target_modules leaves out model.layers.0.self_attn.v_proj"),
        std::pair(json{{"target_modules", {"q_proj", "_proj"}}}, "target_modules leaves out"),
        std::pair(json{{"target_modules", json::array()}}, "target_modules leaves out"),
        std::pair(json{{"target_modules", R"(q_proj|v_proj)"}}, "target_modules leaves out"),
        std::pair(json{{"target_modules", "(?P<x>q)"}}, "cannot be read here"),
        std::pair(json{{"target_modules", std::string(1001, 'a')}}, "more than 1000 characters"),
        std::pair(json{{"target_modules", {1}}}, "target_modules is \"[1]\", expected names"),
        std::pair(json{{"exclude_modules", {"v_proj"}}}, "exclude_modules leaves out model.layers.0.self_attn.v_proj"),
        std::pair(json{{"exclude_modules", ".*q_proj"}}, "exclude_modules leaves out"),
        std::pair(json{{"layers_to_transform", 0}}, "layers_to_transform leaves out model.layers.1"),
        std::pair(json{{"layers_to_transform", {"x"}}}, "expected numbers of layers"),
        std::pair(json{{"layers_to_transform", {0, 1, 2}}, {"layers_pattern", {"h"}}}, "layers_pattern leaves out")})
    EXPECT_NE(refused(changes).find(said), std::string::npos) << changes << refused(changes);
}

}  // namespace peft_test
