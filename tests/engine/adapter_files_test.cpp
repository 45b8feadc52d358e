// Checkpoints with low-rank adapters: resharded, merged, in files of peft and back, and what is refused.
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/merge.h"
#include "libtrain/checkpoint/peft.h"
#include "libtrain/io/safetensors.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace trainyard {
namespace adapter_files_test {

using checkpoint::Kind;
using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig config_of(SmallRun& runs, const std::string& output, const std::string& on = "q,k,v,o,gate,up,down") {
  auto c = runs.config(output);
  c.model = runs.model("filed",
                       "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 2\nffn = 64\ncontext = 32\nnorm = "
                       "\"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\nbiases = \"off\"\ntied = "
                       "\"off\"\n");
  c.adapter = "lora:8", c.adapter_on = on, c.adapter_alpha = 12;
  c.steps = 4, c.global_batch = 4;
  return c;
}

std::vector<float> tensor(const std::string& checkpoint, const std::string& name) {
  checkpoint::Reader reader(checkpoint);
  std::int64_t count = 0;
  for (const auto& p : reader.manifest().parameters)
    if (p.name == name) count = p.count;
  std::vector<float> out(static_cast<std::size_t>(count));
  reader.read_tensor(Kind::model, name, 0, count, out.data());
  return out;
}

void expect_refused(const std::function<void()>& work, base::ExitCode code, const std::string& words) {
  try {
    work();
    ADD_FAILURE() << words;
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_FALSE(e.hint().empty()) << e.what();
  }
}

TEST(AdapterFiles, MergingAddsTheProductOfTheMatrices) {
  SmallRun runs;
  const auto c = config_of(runs, "adapted");
  const auto from = runs.run(c, {2, 1, 1, "f32", "none", 2}).checkpoint;
  const checkpoint::Reader source(from);
  const auto to = (runs.folder() / "merged").string();
  checkpoint::NewLayout layout;
  layout.data = layout.tensor = layout.pipeline = 1;
  checkpoint::merge_adapters(source, to, layout, {});
  checkpoint::Reader merged(to);
  merged.verify_all();
  EXPECT_EQ(merged.state().model.adapter, plan::AdapterConfig());
  EXPECT_EQ(merged.state().contents, checkpoint::Contents::model);
  EXPECT_EQ(checkpoint::adapters_of_weights(source.state().model).size(), 14u);
  const auto w = tensor(from, "layers.01.attention.output.weight"),
             out = tensor(to, "layers.01.attention.output.weight"),
             a = tensor(from, "layers.01.adapter.attention.output.adapter_a"),
             b = tensor(from, "layers.01.adapter.attention.output.adapter_b");
  double moved = 0;
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t j = 0; j < 32; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 8; ++k) sum += static_cast<double>(b[i * 8 + k]) * static_cast<double>(a[k * 32 + j]);
      EXPECT_EQ(out[i * 32 + j], static_cast<float>(static_cast<double>(w[i * 32 + j]) + 1.5 * sum));
      moved += std::abs(sum);
    }
  EXPECT_GT(moved, 0.01);
  EXPECT_EQ(tensor(to, "embedding.tokens.weight"), tensor(from, "embedding.tokens.weight"));
  expect_refused([&] { checkpoint::merge_adapters(merged, to + "-again", layout, {}); }, base::ExitCode::usage,
                 "no adapters to be merged");
  // A run that begins with the merged weights begins where the adapters ended.
  auto plain = c;
  plain.adapter.clear(), plain.adapter_on.clear(), plain.adapter_alpha = 0;
  plain.init_from = to, plain.output = (runs.folder() / "plain").string();
  auto adapted = c;
  adapted.init_from = from, adapted.output = (runs.folder() / "on").string();
  plain.steps = adapted.steps = 1;
  runs.run(plain, {}), runs.run(adapted, {});
  EXPECT_NEAR(SmallRun::metrics(plain)[0]["loss"].get<double>(), SmallRun::metrics(adapted)[0]["loss"].get<double>(),
              1e-5);
}

TEST(AdapterFiles, ReshardedOnesGoOnWithTheSameBits) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    auto c = config_of(runs, fmt::format("whole-{}", dtype));
    const auto want = runs.bits(c, runs.run(c, {1, 0, 1, dtype}));
    auto half = c;
    half.output = (runs.folder() / fmt::format("half-{}", dtype)).string();
    half.stop_after = 2;
    runs.run(half, {2, 1, 1, dtype});
    const checkpoint::Reader source(half.output + "/checkpoints/step-00000002");
    const auto to = (runs.folder() / fmt::format("resharded-{}", dtype)).string();
    checkpoint::NewLayout layout;
    layout.data = 2, layout.tensor = 2, layout.pipeline = 2;
    checkpoint::reshard(source, to, layout, {});
    checkpoint::Reader(to).verify_all();
    auto rest = c;
    rest.output = (runs.folder() / fmt::format("rest-{}", dtype)).string();
    rest.resume = to;
    const auto r = runs.run(rest, {1, 0, 1, dtype});
    const auto got = runs.bits(rest, r);
    EXPECT_TRUE(want.ends_with(got)) << dtype << "\n" << got << "\n" << want;  // the losses of its own steps
    layout.dtype = std::string(dtype) == "f32" ? base::DType::bf16 : base::DType::f32;
    expect_refused([&] { checkpoint::reshard(source, to + "-cast", layout, {}); }, base::ExitCode::usage,
                   "kept in " + std::string(dtype));
  }
}

class Peft : public ::testing::Test {
 protected:
  void SetUp() override {
    auto plain = config_of(runs, "base");
    plain.adapter.clear(), plain.adapter_on.clear(), plain.adapter_alpha = 0;
    base = runs.run(plain, {}).checkpoint;
    auto c = config_of(runs, "adapted");
    c.init_from = base;
    adapted = runs.run(c, {}).checkpoint;
    folder = (runs.folder() / "adapter").string();
    checkpoint::export_peft(checkpoint::Reader(adapted), folder, {});
  }
  std::string config() const { return folder + "/adapter_config.json"; }
  // Imports the folder with another adapter_config.json.
  void import_with(const std::function<void(nlohmann::json&)>& change) {
    auto j = nlohmann::json::parse(base::read_file(config()));
    change(j);
    const auto other = (runs.folder() / "other").string();
    testing::fs::remove_all(other), testing::fs::create_directories(other);
    testing::fs::copy(folder + "/adapter_model.safetensors", other + "/adapter_model.safetensors");
    base::write_file(other + "/adapter_config.json", j.dump());
    checkpoint::import_peft(checkpoint::Reader(base), other, (runs.folder() / "imported-other").string(), {});
  }
  SmallRun runs;
  std::string base, adapted, folder;
};

TEST_F(Peft, ThereAndBack) {
  const io::SafetensorsFile file(folder + "/adapter_model.safetensors");
  EXPECT_EQ(file.header.tensors.size(), 2u * 2 * 7);
  EXPECT_TRUE(std::any_of(file.header.tensors.begin(), file.header.tensors.end(), [](const auto& t) {
    return t.name == "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" &&
           t.shape == std::vector<std::int64_t>{8, 32} && t.dtype == "F32";
  }));
  const auto j = nlohmann::json::parse(base::read_file(config()));
  EXPECT_EQ(j["r"], 8);
  EXPECT_EQ(j["lora_alpha"], 12);
  EXPECT_EQ(j["target_modules"],
            nlohmann::json({"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}));
  const auto to = (runs.folder() / "back").string();
  const auto r = checkpoint::import_peft(checkpoint::Reader(base), folder, to, {});
  EXPECT_EQ(r.tensors, 28u);
  checkpoint::Reader back(to), was(adapted);
  back.verify_all();
  EXPECT_EQ(back.state().model.adapter.scale(), 1.5);
  EXPECT_EQ(back.state().model.adapter.on, was.state().model.adapter.on);
  std::map<std::string, std::uint64_t> fingerprints;
  for (const auto& t : was.tensors()) fingerprints[t.path] = t.fingerprint;
  for (const auto& t : back.tensors()) EXPECT_EQ(t.fingerprint, fingerprints.at(t.path)) << t.path;
}

TEST_F(Peft, ARankThatIsNoMultipleOfEightIsFilledUp) {
  // The first six of eight: other columns and rows of zeros.
  const io::SafetensorsFile file(folder + "/adapter_model.safetensors");
  const auto other = (runs.folder() / "six").string();
  testing::fs::create_directories(other);
  io::SafetensorsHeader header;
  std::vector<std::vector<float>> values;
  for (const auto& t : file.header.tensors) {
    const bool a = t.shape[0] == 8;
    std::vector<float> all(static_cast<std::size_t>(t.bytes / 4)), some;
    file.file.read(t.offset, all.data(), t.bytes);
    for (std::int64_t r = 0; r < (a ? 6 : t.shape[0]); ++r)
      for (std::int64_t c = 0; c < (a ? t.shape[1] : 6); ++c)
        some.push_back(all[static_cast<std::size_t>(r * t.shape[1] + c)]);
    header.tensors.push_back({t.name, "F32", {a ? 6 : t.shape[0], a ? t.shape[1] : 6}, 0, 0});
    values.push_back(some);
  }
  const auto text = io::make_safetensors_header(header);
  {
    io::BulkFile out(other + "/adapter_model.safetensors", io::BulkFile::Mode::create);
    out.write(0, text.data(), static_cast<std::int64_t>(text.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
      out.write(header.tensors[i].offset, values[i].data(), static_cast<std::int64_t>(values[i].size() * 4));
  }
  auto j = nlohmann::json::parse(base::read_file(config()));
  j["r"] = 6, j["use_rslora"] = true;
  base::write_file(other + "/adapter_config.json", j.dump());
  const auto to = (runs.folder() / "filled").string();
  checkpoint::import_peft(checkpoint::Reader(base), other, to, {});
  checkpoint::Reader reader(to);
  EXPECT_EQ(reader.state().model.adapter.rank, 8);
  EXPECT_NEAR(reader.state().model.adapter.scale(), 12 / std::sqrt(6.0), 1e-12);
  const auto a = tensor(to, "layers.00.adapter.attention.q.adapter_a"),
             b = tensor(to, "layers.00.adapter.attention.q.adapter_b"),
             was = tensor(adapted, "layers.00.adapter.attention.q.adapter_b");
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(a[6 * 32 + i], 0.0f);
    EXPECT_EQ(b[i * 8 + 7], 0.0f);
    EXPECT_EQ(b[i * 8 + 5], was[i * 8 + 5]);
  }
}

TEST_F(Peft, Refusals) {
  const auto refuse = base::ExitCode::input_refused;
  const auto refused = [&](const std::function<void(nlohmann::json&)>& change, const std::string& words) {
    expect_refused([&] { import_with(change); }, refuse, words);
  };
  refused([](auto& j) { j["use_dora"] = true; }, "use_dora");
  refused([](auto& j) { j["rank_pattern"] = {{"q_proj", 4}}; }, "rank_pattern");
  refused([](auto& j) { j["modules_to_save"] = {"lm_head"}; }, "modules_to_save");
  refused([](auto& j) { j["bias"] = "all"; }, "bias");
  refused([](auto& j) { j["init_lora_weights"] = "pissa"; }, "init_lora_weights");
  refused([](auto& j) { j["a_new_thing"] = 3; }, "a_new_thing");
  refused([](auto& j) { j["peft_type"] = "IA3"; }, "only LORA");
  refused([](auto& j) { j.erase("r"); }, "'r' is missing");
  refused([](auto& j) { j["r"] = 16; }, "r is 16");
  refused([](auto& j) { j["lora_alpha"] = -1; }, "lora_alpha");
  refused([](auto& j) { j = 3; }, "no JSON object");
  const auto deep = [](auto& j) {
    nlohmann::json inner = 1;
    for (int i = 0; i < 200; ++i) inner = nlohmann::json::array({inner});
    j["a_new_thing"] = inner;
  };
  refused(deep, "deep");
  refused([](auto& j) { j["lora_alpha"] = 1e7; }, "adapter-alpha");  // and not that no tensor belongs to a layer
  expect_refused([&] { checkpoint::import_peft(checkpoint::Reader(adapted), folder, folder + "-on", {}); },
                 base::ExitCode::usage, "has adapters already");
  expect_refused([&] { checkpoint::export_peft(checkpoint::Reader(base), folder + "-none", {}); },
                 base::ExitCode::usage, "has no adapters");
  expect_refused([&] { checkpoint::export_model(checkpoint::Reader(adapted), folder + "-hf", {}); },
                 base::ExitCode::usage, "has adapters beside its weights");
  base::write_file(folder + "/adapter_model.safetensors", std::string(20, 'x'));
  expect_refused([&] { checkpoint::import_peft(checkpoint::Reader(base), folder, folder + "-bad", {}); }, refuse,
                 "adapter_model.safetensors");
}

// The product of an adapter may be beyond f16, where f32 and bf16 hold it.
TEST_F(Peft, AMergeThatDoesNotFitIsRefused) {
  auto c = config_of(runs, "large");
  c.adapter_alpha = 1e6, c.init_from = base, c.learning_rate = 1;
  const checkpoint::Reader large(runs.run(c, {}).checkpoint);
  checkpoint::NewLayout layout;
  layout.dtype = base::DType::f16;
  expect_refused([&] { checkpoint::merge_adapters(large, folder + "-narrow", layout, {}); },
                 base::ExitCode::input_refused, "are too large for f16");
  EXPECT_FALSE(testing::fs::exists(folder + "-narrow"));
  layout.dtype = base::DType::f32;
  checkpoint::merge_adapters(large, folder + "-wide", layout, {});
}

// GPT-2 keeps q, k and v as one layer.
TEST(AdapterFiles, AnAdapterOnAPartOfALayerIsNotExported) {
  SmallRun runs;
  auto c = runs.config("gpt2");
  c.adapter = "lora:8", c.adapter_on = "q", c.steps = 1;
  const auto from = runs.run(c, {}).checkpoint;
  expect_refused([&] { checkpoint::export_peft(checkpoint::Reader(from), from + "-peft", {}); },
                 base::ExitCode::input_refused, "c_attn");
}

}  // namespace adapter_files_test
}  // namespace trainyard
