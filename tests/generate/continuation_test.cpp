// Continuation: greedy text compared with a whole forward pass over every window, in single and double precision. Also
// threads, and how a text ends.
#include "tools/generate/continuation.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/generate/saved_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace trainyard::test {
namespace {

using generate::continue_text;
using generate::Go;
using generate::StopAt;
using generate::Stopped;
using Tokens = std::vector<std::int32_t>;

std::vector<plan::ModelConfig> models() {
  std::vector<plan::ModelConfig> all{tiny(), tiny_llama()};
  for (const auto* name : {"gpt2-nano", "llama-nano"}) {
    all.push_back(plan::preset(name));
    all.back().vocabulary = 257;
    all.back().context = 40;
  }
  // The presets with parts of OLMo 2 and OPT, and of Gemma 2.
  auto &gpt = all[2], &llama = all[3];
  gpt.norm_position = plan::NormPosition::inside_post, gpt.position_offset = 2;
  gpt.activation = plan::Activation::relu;
  llama.norm_position = plan::NormPosition::sandwich, llama.norm_offset = 1, llama.embedding_scale = 8;
  llama.logit_softcap = 5, llama.activation = plan::Activation::geglu_tanh;
  return all;
}

generate::ContinuationSettings bytes(std::int64_t tokens, StopAt stop) { return {tokens, stop, {256}, 257}; }

struct Text {
  Tokens tokens;
  std::vector<std::vector<float>> logits;  // before each new token
  Stopped stopped;
};
Text text_of(generate::LanguageModel& model, const generate::SamplerSettings& how,
             const generate::ContinuationSettings& settings, Tokens prompt) {
  Text out{std::move(prompt), {}, Stopped::reader};
  out.stopped = continue_text(model, how, settings, out.tokens, [&](std::int32_t, std::span<const float> logits) {
    out.logits.emplace_back(logits.begin(), logits.end());
    return Go::on;
  });
  return out;
}

// What the model sees before each token by the documented rule, read at once by a decoder without a cache.
class Recompute {
 public:
  Recompute(const plan::ModelConfig& model, base::DType dtype)
      : model_(model), dtype_(dtype), store_(model, dtype, 21) {
    for (auto& flat_group : store_.master)
      for (auto& x : flat_group) x *= 8;
    store_.publish();
  }
  std::vector<double> logits(std::span<const std::int32_t> window) {
    Tokens tokens(window.begin(), window.end());
    tokens.push_back(0);
    const Batch batch({tokens}, false);
    const auto n = static_cast<std::int64_t>(window.size());
    Runner runner(model_, {1, n, dtype_, 1});
    std::vector<double> out(static_cast<std::size_t>(model_.stored_vocabulary()));
    if (dtype_ == base::DType::f64) {
      runner.logits(store_, batch, n - 1, base::View::of(out.data(), {1, model_.stored_vocabulary()}));
    } else {
      std::vector<float> narrow(out.size());
      runner.logits(store_, batch, n - 1, base::View::of(narrow.data(), {1, model_.stored_vocabulary()}));
      std::copy(narrow.begin(), narrow.end(), out.begin());
    }
    out.resize(257);
    return out;
  }

 private:
  plan::ModelConfig model_;
  base::DType dtype_;
  PlainStore store_;
};

TEST(Continuation, GreedyIsTheWholeForwardPass) {
  for (const auto& config : models()) {
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    generate::LanguageModel model(reader, 2);
    const Tokens prompt{256, 72, 101, 108, 108, 111};
    const auto context = static_cast<std::size_t>(config.context);
    const auto got =
        text_of(model, {0, 0, 0, 1}, bytes(static_cast<std::int64_t>(3 * context), StopAt::length), prompt);
    ASSERT_EQ(got.tokens.size(), prompt.size() + 3 * context);
    for (const auto dtype : {base::DType::f32, base::DType::f64}) {
      const double bound = dtype == base::DType::f32 ? 2e-5 : 1e-4;  // f64: the model's rounding to f32 counts as well
      Recompute whole(config, dtype);
      std::size_t first = 0, seen = prompt.size();  // the window: tokens [first, seen)
      for (std::size_t i = 0; i < got.logits.size(); ++i, ++seen) {
        if (seen - first > context) first = seen - context / 2;
        const auto want = whole.logits(std::span(got.tokens).subspan(first, seen - first));
        double most = 0;
        for (const double x : want) most = std::max(most, std::abs(x));
        for (std::size_t v = 0; v < want.size(); ++v)
          ASSERT_NEAR(got.logits[i][v], want[v], bound * most)
              << config.name << ", token " << i << ", " << base::name_of(dtype);
        ASSERT_EQ(got.tokens[seen], std::max_element(want.begin(), want.begin() + 256) - want.begin())
            << config.name << ", token " << i << ", " << base::name_of(dtype);
      }
    }
  }
}

TEST(Continuation, AnyNumberOfThreadsGivesTheSameBits) {
  for (const auto& config : models()) {
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    std::vector<Text> texts;
    for (const int threads : {1, 2, 3, 5}) {
      generate::LanguageModel model(reader, threads);
      texts.push_back(text_of(model, {0.9, 0, 11, 0.95}, bytes(60, StopAt::length), {256, 97, 98}));
      ASSERT_EQ(texts.back().tokens, texts[0].tokens) << config.name << ", " << threads << " threads";
      for (std::size_t i = 0; i < 60; ++i)
        ASSERT_EQ(std::memcmp(texts.back().logits[i].data(), texts[0].logits[i].data(), 257 * sizeof(float)), 0)
            << config.name << ", " << threads << " threads, token " << i;
    }
  }
}

TEST(Continuation, AModelSpeaksOfOneTextAtATime) {
  SavedRun saved;
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  const auto first = text_of(model, {1, 0, 3, 1}, bytes(30, StopAt::length), {256, 1, 2});
  text_of(model, {1, 0, 3, 1}, bytes(7, StopAt::length), {256, 200, 100, 50});
  EXPECT_EQ(text_of(model, {1, 0, 3, 1}, bytes(30, StopAt::length), {256, 1, 2}).tokens, first.tokens);
}

// Logits are nearly uniform, so an end of document comes up once in 257 draws.
TEST(Continuation, HowATextEnds) {
  SavedRun saved;
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  const generate::SamplerSettings flat{100, 0, 5, 1};
  const auto ended = text_of(model, flat, bytes(5000, StopAt::end_of_document), {256, 72});
  EXPECT_EQ(ended.stopped, Stopped::end_of_document);
  EXPECT_LT(ended.tokens.size(), 5002u);
  EXPECT_EQ(ended.tokens.size(), ended.logits.size() + 2);
  EXPECT_EQ(std::count(ended.tokens.begin(), ended.tokens.end(), 256), 1);
  const auto on = text_of(model, flat, bytes(1500, StopAt::length), {256, 72});
  EXPECT_EQ(on.stopped, Stopped::length);
  EXPECT_EQ(on.tokens.size(), 1502u);
  EXPECT_EQ(std::count(on.tokens.begin(), on.tokens.end(), 256), 1);
  for (const auto& logits : on.logits) ASSERT_TRUE(std::isfinite(logits[256]));

  int shown = 0;
  Tokens tokens{256};
  EXPECT_EQ(continue_text(model, flat, bytes(9, StopAt::length), tokens,
                          [&](auto, auto) { return ++shown == 4 ? Go::stop : Go::on; }),
            Stopped::reader);
  EXPECT_EQ(tokens.size(), 5u);
}

TEST(Continuation, EachEndTokenEnds) {
  SavedRun saved;
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  const generate::SamplerSettings flat{100, 0, 5, 1};
  const auto plain = text_of(model, flat, {12, StopAt::end_of_document, {}, 257}, {256, 72});
  const auto second = plain.tokens[6];
  const auto ended = text_of(model, flat, {12, StopAt::end_of_document, {256, second}, 257}, {256, 72});
  EXPECT_EQ(ended.stopped, Stopped::end_of_document);
  const auto at = std::find(plain.tokens.begin() + 2, plain.tokens.end(), second);
  EXPECT_EQ(ended.tokens, Tokens(plain.tokens.begin(), at));
  const auto on = text_of(model, flat, {1500, StopAt::length, {256, second}, 257}, {256, 72});
  EXPECT_EQ(on.stopped, Stopped::length);
  EXPECT_EQ(std::count(on.tokens.begin() + 2, on.tokens.end(), second), 0);
}

// A model may have more rows than its tokenizer has tokens: they are never drawn, and count in the softmax.
TEST(Continuation, RowsWithoutATokenAreShownAndNotDrawn) {
  SavedRun saved;
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  const auto few = text_of(model, {100, 0, 5, 1}, {300, StopAt::end_of_document, {}, 60}, {256, 72});
  ASSERT_EQ(few.tokens.size(), 302u);
  EXPECT_LT(*std::max_element(few.tokens.begin() + 2, few.tokens.end()), 60);
  for (const auto& logits : few.logits) ASSERT_EQ(logits.size(), 257u);
}

TEST(Continuation, APromptMayFillTheContext) {
  SavedRun saved;
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  Tokens prompt(16, 65);
  prompt[0] = 256;
  EXPECT_EQ(text_of(model, {1, 0, 3, 1}, bytes(40, StopAt::length), prompt).tokens.size(), 56u);
}

TEST(Continuation, LogitsThatAreNoNumbersAreRefused) {
  auto broken = tiny();
  broken.name = "broken";
  SavedRun saved(broken, std::numeric_limits<double>::quiet_NaN());
  checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
  generate::LanguageModel model(reader, 1);
  EXPECT_THROW(text_of(model, {1, 0, 3, 1}, bytes(4, StopAt::length), {256}), base::CheckError);
}

}  // namespace
}  // namespace trainyard::test
