// generate: the loaded model compared with the same weights in a plain store, and the program itself.
#include "tests/checkpoint/layouts.h"
#include "tests/generate/saved_run.h"
#include "tools/generate/language_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

namespace trainyard::test {
namespace {

struct Outcome {
  std::string text;
  int code;
};
Outcome run(const std::string& arguments) {
  std::FILE* pipe = popen((std::string(GENERATE_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  Outcome out;
  char buffer[4096];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, pipe)) out.text.append(buffer, n);
  out.code = WEXITSTATUS(pclose(pipe));
  return out;
}

TEST(Generate, ModelIsTheCheckpoint) {
  SavedRun saved;
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 2);
  const std::vector<std::int32_t> tokens{256, 72, 101, 108, 108, 111};
  const auto got = model.begin(tokens);
  std::vector<std::int32_t> window = tokens;
  window.push_back(0);
  const Batch batch({window}, false);
  Runner runner(tiny(), {1, 6, base::DType::f32, 1});
  std::vector<float> want(static_cast<std::size_t>(tiny().stored_vocabulary()));
  runner.logits(saved.store, batch, 5, base::View::of(want.data(), {1, tiny().stored_vocabulary()}));
  ASSERT_EQ(got.size(), 257u);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << i;
}

// Every checksum is right, but the weights are not those that were saved.
TEST(Generate, OtherWeightsThanWereSavedAreRefused) {
  const SavedRun saved;
  const auto folder = generate::find_checkpoint(saved.folder.string());
  sample::edit_manifest(folder, [](nlohmann::json& j) {
    j["tensors"]["/model/embedding.tokens.weight"]["fingerprint"] = "0123456789abcdef";
  });
  checkpoint::Reader reader(folder);
  EXPECT_THROW(generate::LanguageModel(reader, 2), base::InputError);
  const auto told = run("--checkpoint " + saved.folder.string() + " --tokens 2");
  EXPECT_EQ(told.code, 3) << told.text;
  EXPECT_NE(told.text.find("/model/embedding.tokens.weight was read with fingerprint"), std::string::npos) << told.text;
}

// Reading one token at a time gives the same as reading all at once. That holds for learned and rotary positions and
// for grouped key-value heads.
TEST(Generate, OneTokenAtATimeIsTheWholeText) {
  auto normed = tiny_llama(), wide = tiny_llama();
  normed.qk_norm = plan::QkNorm::head, normed.head_size = 20;
  normed.rotary = {.scaling = plan::RotaryScaling::yarn, .factor = 2, .original = 8, .fraction = 0.5};
  wide.qk_norm = plan::QkNorm::width, wide.biases = plan::Biases::qkv, wide.query_scale = 0.5;
  for (const auto& config : {tiny(), tiny_llama(), normed, wide}) {
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    generate::LanguageModel one(reader, 2), whole(reader, 1);
    std::vector<std::int32_t> tokens{256, 72, 101};
    one.begin(tokens);
    while (!one.full()) {
      tokens.push_back(static_cast<std::int32_t>(tokens.size() * 37 % 250));
      const auto got = one.append(tokens.back()), want = whole.begin(tokens);
      double most = 0;
      for (auto x : want) most = std::max(most, std::abs(static_cast<double>(x)));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 2e-5 * most) << config.name << ", " << tokens.size() << " tokens";
    }
    EXPECT_EQ(tokens.size(), 16u);
  }
}

// The same with block-sparse attention: windows, global blocks, random blocks of each head, windows of tokens. The
// cache keeps what later tokens may still see.
TEST(Generate, OneTokenAtATimeIsTheWholeTextOfBlocks) {
  auto windows = tiny_llama(), heads = tiny(), tokens_apart = tiny_llama();
  for (auto* m : {&windows, &heads, &tokens_apart}) m->context = 150, m->attention.block = 16;
  windows.attention.layout = {"sliding", "longformer"}, windows.attention.window = 2;
  heads.attention.layout = {"bigbird"}, heads.attention.window = 1, heads.attention.random = 2;
  heads.attention.per_head = true;
  tokens_apart.attention.layout = {"dense", "sliding"}, tokens_apart.attention.window = 3;
  tokens_apart.attention.window_tokens = {40, 21}, tokens_apart.attention.softcap = 0.05;
  for (const auto& config : {windows, heads, tokens_apart}) {
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    generate::LanguageModel one(reader, 2), whole(reader, 1);
    std::vector<std::int32_t> tokens(45, 256);  // more than a window's cache holds
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 53 % 250);
    one.begin(tokens);
    while (!one.full()) {
      tokens.push_back(static_cast<std::int32_t>(tokens.size() * 37 % 250));
      const auto got = one.append(tokens.back()), want = whole.begin(tokens);
      double most = 0;
      for (auto x : want) most = std::max(most, std::abs(static_cast<double>(x)));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-4 * most) << config.name << ", " << tokens.size() << " tokens";
    }
    EXPECT_EQ(tokens.size(), 150u);
  }
  // A sliding layer caches its window: two blocks of 16 rows, in f32, of keys and of values. The other layer caches the
  // whole context.
  const auto row = windows.kv_heads * windows.head_dim() * 4;
  ASSERT_EQ(windows.layers, 2);
  EXPECT_EQ(model::KvCache::bytes(windows, base::DType::f32), 2 * (base::aligned(32 * row) + base::aligned(150 * row)));
}

// The last position's row sees every key: all cached rows are gathered, beside what the layer holds.
TEST(Generate, AFullContextWhoseLastRowSeesAllFits) {
  auto m = tiny();
  m.heads = m.kv_heads = 8, m.hidden = 32, m.ffn = 16, m.context = 600;
  m.attention.layout = {"longformer"}, m.attention.block = 64, m.attention.window = 1, m.attention.global_blocks = "9";
  SavedRun saved(m);
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  const std::vector<std::int32_t> tokens(590, 7);
  model.begin(tokens);
  while (!model.full()) model.append(9);
}

// A layout from a file has one length, so there may be less room than the context.
TEST(Generate, TheLayoutOfAFileIsTheRoom) {
  auto m = tiny();
  m.context = 64;
  m.attention.layout = {"file"}, m.attention.block = 16, m.attention.file_blocks = "0; 0 1";
  SavedRun saved(m);
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  EXPECT_EQ(model.room(), 32);
  model.begin(std::vector<std::int32_t>(20, 7));
  std::int64_t more = 0;
  for (; !model.full(); ++more) model.append(9);
  EXPECT_EQ(more, 12);
}

// A model whose experts would drop most of a long text in training.
plan::ModelConfig tiny_experts(bool llama) {
  auto m = llama ? tiny_llama() : tiny();
  m.name = llama ? "shared-experts" : "experts";
  auto& e = m.experts;
  e.count = {4}, e.min_capacity = 1, e.capacity_factor = "0.5";
  if (llama)
    e.top_k = 2, e.shared = 1, e.ffn = 48, e.score = plan::GateScore::sigmoid, e.noise = plan::GateNoise::gumbel;
  else e.every = 2, e.evaluation_capacity_factor = "0.25";
  return m;
}

// A token's result does not depend on the tokens that are read with it: none is dropped.
TEST(Generate, ExpertsDropNoTokens) {
  for (const bool llama : {false, true}) {
    const auto config = tiny_experts(llama);
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    generate::LanguageModel one(reader, 2), whole(reader, 1);
    auto without_bounds = config, bounded = config;
    without_bounds.experts.evaluation_capacity_factor = "none";
    std::vector<std::int32_t> tokens{256};
    one.begin(tokens);
    double bounds_change = 0;
    while (!one.full()) {
      tokens.push_back(static_cast<std::int32_t>(tokens.size() * 37 % 250));
      const auto got = one.append(tokens.back()), want = whole.begin(tokens);
      double most = 0;
      for (auto x : want) most = std::max(most, std::abs(static_cast<double>(x)));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 2e-5 * most) << config.name << ", " << tokens.size() << " tokens";
      auto window = tokens;
      window.push_back(0);
      const Batch batch({window}, false);
      const auto n = static_cast<std::int64_t>(tokens.size());
      for (const auto& m : {without_bounds, bounded}) {
        Runner runner(m, {1, n, base::DType::f32, 1});
        std::vector<float> direct(static_cast<std::size_t>(m.stored_vocabulary()));
        runner.logits(saved.store, batch, n - 1, base::View::of(direct.data(), {1, m.stored_vocabulary()}));
        for (std::size_t i = 0; i < want.size(); ++i) {
          if (m == bounded) {
            bounds_change = std::max(bounds_change, std::abs(static_cast<double>(want[i] - direct[i])) / most);
          } else {
            ASSERT_EQ(want[i], direct[i]) << config.name << ", " << tokens.size() << " tokens";
          }
        }
      }
    }
    EXPECT_EQ(tokens.size(), 16u);
    EXPECT_GT(bounds_change, 1e-3) << "nothing would have been dropped";
  }
}

TEST(Generate, Program) {
  SavedRun saved;
  const std::string base = "--checkpoint " + saved.folder.string() + " --prompt 'Hi there' --no-bos --tokens 40";
  const auto first = run(base + " --seed 4"), again = run(base + " --seed 4"), other = run(base + " --seed 5");
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_EQ(first.text, again.text);
  EXPECT_NE(first.text, other.text);
  EXPECT_TRUE(first.text.starts_with("Hi there")) << first.text;
  EXPECT_GT(first.text.size(), 12u);
  EXPECT_EQ(run(base + " --temperature 0 --seed 1").text, run(base + " --temperature 0 --seed 2").text);
  for (const int threads : {2, 3})
    EXPECT_EQ(run(base + fmt::format(" --seed 4 --threads {}", threads)).text, first.text) << threads;
}

TEST(Generate, Refusals) {
  const auto missing = run("--checkpoint /nonexistent-run");
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.text.find("no such checkpoint"), std::string::npos) << missing.text;
  EXPECT_EQ(run("--prompt x").code, 2);
  SavedRun saved;
  EXPECT_EQ(run("--checkpoint " + saved.folder.string() + " --tokenizer /nonexistent.model").code, 3);
  EXPECT_EQ(run("--checkpoint " + saved.folder.string() + " --temperature -1").code, 2);
}

}  // namespace
}  // namespace trainyard::test
