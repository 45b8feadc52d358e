// generate: the sampler against the softmax, the loaded model against the same weights in a plain store, and the program itself.
#include "libtrain/checkpoint/rank_writer.h"
#include "tests/model/small_model.h"
#include "tools/generate/language_model.h"
#include "tools/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

namespace trainyard::test {
namespace {

namespace fs = std::filesystem;

plan::ModelConfig tiny() {
  auto m = small_gpt2();
  m.vocabulary = 257, m.context = 16;
  return m;
}

// A run's folder with one checkpoint of step 3, written by one rank.
struct SavedRun {
  fs::path folder = fs::temp_directory_path() / fmt::format("trainyard-generate-{}", getpid());
  PlainStore store;

  explicit SavedRun(const plan::ModelConfig& model = tiny()) : store(model, base::DType::f32, 21) {
    fs::remove_all(folder);
    for (auto& unit : store.master)
      for (auto& x : unit) x *= 8;   // far from uniform
    store.publish();
    std::vector<std::vector<float>> flat;
    for (const auto& unit : store.master) flat.emplace_back(unit.begin(), unit.end());
    std::vector<std::vector<float>> zeros = flat;
    for (auto& z : zeros) std::fill(z.begin(), z.end(), 0.0f);
    checkpoint::RankPieces pieces;
    pieces.rank = 0, pieces.ranks = 1;
    for (std::size_t u = 0; u < flat.size(); ++u) {
      const auto n = static_cast<std::int64_t>(flat[u].size());
      pieces.model.push_back(base::View::of(flat[u].data(), {n}));
      pieces.m.push_back(base::View::of(zeros[u].data(), {n}));
      pieces.v.push_back(base::View::of(zeros[u].data(), {n}));
    }
    checkpoint::RunState state;
    state.step = 3, state.model = model, state.isa = "any";
    state.provenance["tokenizer"] = "bytes";
    const auto where = (folder / "checkpoints").string();
    checkpoint::write_rank(where, state, pieces, {});
    checkpoint::publish(where, state, 1, 3);
  }
  ~SavedRun() { fs::remove_all(folder); }
};

struct Outcome { std::string text; int code; };
Outcome run(const std::string& arguments) {
  std::FILE* pipe = popen((std::string(GENERATE_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  Outcome out;
  char buffer[4096];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, pipe)) out.text.append(buffer, n);
  out.code = WEXITSTATUS(pclose(pipe));
  return out;
}

TEST(Sampler, FollowsTheSoftmax) {
  const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    generate::Sampler sampler({temperature, 0, 5});
    std::vector<double> seen(4, 0), want(4);
    const int draws = 40000;
    for (int i = 0; i < draws; ++i) ++seen[static_cast<std::size_t>(sampler.next(logits, static_cast<std::uint64_t>(i)))];
    for (std::size_t i = 0; i < 4; ++i) want[i] = std::exp(logits[i] / temperature);
    const double sum = std::accumulate(want.begin(), want.end(), 0.0);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(seen[i] / draws, want[i] / sum, 0.012) << temperature << " " << i;
  }
}

TEST(Sampler, GreedyAndTopK) {
  const std::vector<float> logits{0.5f, 2.0f, 2.0f, 1.0f};
  generate::Sampler greedy({0, 0, 5}), two({1, 2, 5});
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(greedy.next(logits, i), 1);
    const auto t = two.next(logits, i);
    EXPECT_TRUE(t == 1 || t == 2) << t;
  }
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

// One token at a time gives what reading all of them at once gives, for learned and rotary positions and shared key-value heads.
TEST(Generate, OneTokenAtATimeIsTheWholeText) {
  for (const auto& config : {tiny(), [] { auto m = small_llama(); m.vocabulary = 257, m.context = 16; return m; }()}) {
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
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5 * most) << config.name << ", " << tokens.size() << " tokens";
    }
    EXPECT_EQ(tokens.size(), 16u);
  }
}

TEST(Generate, Program) {
  SavedRun saved;
  const std::string base = "--checkpoint " + saved.folder.string() + " --prompt 'Hi there' --tokens 40 --threads 1";
  const auto first = run(base + " --seed 4"), again = run(base + " --seed 4"), other = run(base + " --seed 5");
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_EQ(first.text, again.text);
  EXPECT_NE(first.text, other.text);
  EXPECT_TRUE(first.text.starts_with("Hi there")) << first.text;
  EXPECT_GT(first.text.size(), 12u);
  EXPECT_EQ(run(base + " --temperature 0 --seed 1").text, run(base + " --temperature 0 --seed 2").text);
  const std::string prompt(60, 'x');   // longer than the context of 16
  EXPECT_TRUE(run("--checkpoint " + saved.folder.string() + " --tokens 3 --prompt " + prompt).text.starts_with(prompt));
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
