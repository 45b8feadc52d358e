// generate with an encoder: targets against transformers, cached passes against passes over all tokens, batches, beam
// search against every text there is, and what is refused.
#include "tools/generate/pairs.h"
#include "tests/generate/saved_run.h"
#include "tests/scratch.h"
#include "tools/generate/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace trainyard::test {
namespace pairs_test {

using generate::BeamSearch;
using generate::PairAnswer;
using generate::PairModel;
using generate::PairRequest;
using generate::PairSettings;
using Tokens = std::vector<std::int32_t>;

plan::ModelConfig in_bytes(plan::ModelConfig m) {
  m.vocabulary = 257, m.context = 64;
  return m;
}

// The model of tests/golden/t5_generate.py.
plan::ModelConfig t5() {
  plan::ModelConfig m;
  m.name = "t5", m.hidden = 32, m.heads = m.kv_heads = 4, m.head_size = 12, m.ffn = 64;
  m.encoder_layers = m.decoder_layers = 2, m.layers = 4;
  m.norm = plan::Norm::rms, m.norm_epsilon = 1e-6, m.biases = plan::Biases::off;
  m.positions = plan::Positions::relative, m.relative_buckets = 8, m.relative_distance = 12, m.query_scale = 1;
  m.activation = plan::Activation::geglu_tanh, m.tied = false, m.initial_values = plan::InitialValues::fan_in;
  m.decoder_start = 0;
  return in_bytes(m);
}

plan::ModelConfig with_experts(plan::ModelConfig m) {
  m.experts.count = {4}, m.experts.every = 2, m.experts.capacity_factor = "1";
  return m;
}

PairSettings settings_of(std::int64_t tokens, const Tokens& ends) {
  PairSettings s;
  s.continuation.tokens = tokens, s.continuation.ends = ends, s.continuation.vocabulary = 257;
  s.sampler.temperature = 0;
  return s;
}

struct Opened {
  explicit Opened(const SavedRun& saved, const PairModel::Room& room)
      : reader(generate::find_checkpoint(saved.folder.string())), model(reader, 1, room) {}
  checkpoint::Reader reader;
  PairModel model;
};

std::vector<PairAnswer> answers(PairModel& model, const PairSettings& settings,
                                const std::vector<PairRequest>& requests) {
  const auto bytes = data::make_tokenizer("bytes");
  std::vector<PairAnswer> out;
  std::size_t next = 0;
  answer_requests(
      model, *bytes, settings, [&] { return next < requests.size() ? std::optional(requests[next++]) : std::nullopt; },
      [&](std::int64_t number, const PairAnswer& answer) {
        EXPECT_EQ(number, std::ssize(out));
        out.push_back(answer);
        return true;
      });
  return out;
}

TEST(Pairs, TargetsAreThoseOfTransformers) {
  const auto golden = nlohmann::json::parse(std::ifstream(GOLDEN_T5_GENERATE));
  const SavedRun saved(t5(), golden.at("factor").get<double>());
  const auto ends = golden.at("ends").get<Tokens>();
  std::map<std::int64_t, std::unique_ptr<Opened>> models;  // by beams
  int ended = 0;
  for (const auto& c : golden.at("cases")) {
    const auto beams = c.at("beams").get<std::int64_t>();
    auto& of = models[beams];
    if (!of) of = std::make_unique<Opened>(saved, PairModel::Room{1, beams, 0});
    auto settings = settings_of(golden.at("tokens"), ends);
    settings.beams = beams, settings.length_penalty = c.at("length_penalty");
    const auto got = answers(of->model, settings, {{c.at("source"), {0}, 0}}).at(0);
    const auto where =
        fmt::format("{} beams, penalty {}, {} source tokens", beams, settings.length_penalty, c.at("source").size());
    EXPECT_EQ(got.tokens, c.at("tokens").get<Tokens>()) << where;
    EXPECT_EQ(got.stopped == generate::Stopped::end_of_document, c.at("ended").get<bool>()) << where;
    // Its log probabilities are of f32.
    if (beams > 1) {
      const auto score = c.at("score").get<double>();
      EXPECT_NEAR(got.score.value(), score, 1e-4 * std::max(1.0, std::abs(score))) << where;
    }
    ended += c.at("ended").get<bool>() ? 1 : 0;
  }
  EXPECT_GT(ended, 20);
}

// One token at a time, behind a cache, gives what one pass over all tokens of the target gives.
TEST(Pairs, CachedTargetsAreWholeTargets) {
  for (const auto& m : {in_bytes(with_encoder(small_gpt2())), in_bytes(with_experts(with_encoder(small_llama()))),
                        in_bytes(small_relative()), t5()}) {
    const SavedRun saved(m, 3);
    Opened of(saved, {2, 1, 0});
    const Tokens source{72, 101, 108, 108, 111, 256}, other{9, 256}, target{0, 65, 66, 200, 13, 14, 15, 250};
    of.model.begin(1, other, Tokens{0});
    std::vector<float> cached;
    for (std::size_t n = 1; n <= target.size(); ++n) {
      std::span<const float> logits;
      if (n == 1) {
        logits = of.model.begin(0, source, Tokens{target[0]});
      } else {  // beside another text
        const std::vector<PairModel::Next> next{{1, 0, 7}, {0, 0, target[n - 1]}};
        logits = of.model.append(next)[1];
      }
      cached.assign(logits.begin(), logits.end());
      Opened alone(saved, {1, 1, 0});
      const auto whole = alone.model.begin(0, source, Tokens(target.begin(), target.begin() + static_cast<int>(n)));
      double most = 0, largest = 0;
      for (std::size_t i = 0; i < cached.size(); ++i)
        most = std::max<double>(most, std::abs(cached[i] - whole[i])),
        largest = std::max<double>(largest, std::abs(whole[i]));
      EXPECT_LT(most, 2e-5 * largest) << m.name << ", token " << n;
    }
  }
}

// An answer has the same bits whatever is answered beside it.
TEST(Pairs, BatchesChangeNothing) {
  for (const auto& m : {in_bytes(with_experts(with_encoder(small_llama()))), t5()}) {
    const SavedRun saved(m, 3);
    std::vector<PairRequest> requests;
    for (int i = 0; i < 7; ++i) {
      PairRequest r{{}, {0}, static_cast<std::uint64_t>(i)};
      for (int t = 0; t < 2 + 5 * i % 11; ++t) r.source.push_back((17 * i + 31 * t + t * t) % 256);
      r.source.push_back(256);
      requests.push_back(std::move(r));
    }
    for (const std::int64_t beams : {1, 3})
      for (const double temperature : {0.0, 1.0}) {
        if (beams > 1 && temperature > 0) continue;
        auto settings = settings_of(9, {256, 3, 50, 100, 150, 200});
        settings.beams = beams, settings.sampler.temperature = temperature;
        Opened one(saved, {1, beams, 0}), several(saved, {3, beams, 0});
        const auto want = answers(one.model, settings, requests), got = answers(several.model, settings, requests);
        ASSERT_EQ(want.size(), 7u);
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(got[i].tokens, want[i].tokens) << i;
          EXPECT_EQ(got[i].log_probabilities, want[i].log_probabilities) << i;
          EXPECT_EQ(got[i].score, want[i].score);
        }
      }
  }
}

// Logits that depend on the tokens before, of a vocabulary of four with 3 as the end.
std::vector<float> toy_logits(const Tokens& text) {
  std::uint64_t state = 1234567;
  for (const auto token : text) state = state * 6364136223846793005u + static_cast<std::uint64_t>(token) + 1442695041u;
  std::vector<float> out;
  for (int i = 0; i < 4; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.push_back(static_cast<float>(state >> 40) / static_cast<float>(1 << 22));
  }
  return out;
}

struct Best {
  double score = -1e30;
  Tokens tokens;
};
void every_text(Tokens& text, double sum, double penalty, std::int64_t most, Best& best) {
  const auto logits = toy_logits(text);
  double norm = 0;
  for (const auto x : logits) norm += std::exp(static_cast<double>(x));
  for (std::int32_t token = 0; token < 4; ++token) {
    const double more = sum + static_cast<double>(logits[static_cast<std::size_t>(token)]) - std::log(norm);
    const auto length = std::ssize(text) + 1;
    const bool ends = token == 3;
    if (ends || length == most) {
      auto whole = text;
      if (!ends) whole.push_back(token);
      if (const double score = more / std::pow(static_cast<double>(length), penalty); score > best.score)
        best = {score, whole};
      continue;
    }
    text.push_back(token);
    every_text(text, more, penalty, most, best);
    text.pop_back();
  }
}

TEST(Beams, EnoughOfThemFindTheBestText) {
  for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
    Best best;
    Tokens empty;
    every_text(empty, 0, penalty, 5, best);
    BeamSearch search({400, penalty, 5, {3}, {}, 4});
    bool more = true;
    while (more) {
      std::vector<std::vector<float>> logits;
      for (const auto& text : search.running()) logits.push_back(toy_logits(text.tokens));
      std::vector<std::span<const float>> views(logits.begin(), logits.end());
      more = search.take(views);
    }
    EXPECT_EQ(search.finished().front().tokens, best.tokens) << penalty;
    EXPECT_NEAR(search.finished().front().score, best.score, 1e-12);
  }
}

TEST(Beams, OneBeamIsTheLikeliestTokenEachTime) {
  Tokens greedy;
  while (std::ssize(greedy) < 6) {
    const auto logits = toy_logits(greedy);
    const auto token = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (token == 3) break;
    greedy.push_back(token);
  }
  BeamSearch search({1, 1, 6, {3}, {}, 4});
  bool more = true;
  while (more) {
    const auto logits = toy_logits(search.running().at(0).tokens);
    const std::span<const float> view(logits);
    more = search.take({&view, 1});
  }
  EXPECT_EQ(search.finished().front().tokens, greedy);
}

TEST(Pairs, FirstTokensAreTheStartAndTheLanguage) {
  auto m = t5();
  const auto bytes = data::make_tokenizer("bytes");
  EXPECT_EQ(generate::first_tokens_of(m, *bytes, ""), Tokens{0});
  m.decoder_start = -1;
  EXPECT_EQ(generate::first_tokens_of(m, *bytes, ""), Tokens{256});
  EXPECT_THROW(generate::first_tokens_of(m, *bytes, "de"), base::InputError);
  EXPECT_EQ(generate::source_tokens(*bytes, "ab", 3), (Tokens{97, 98, 256}));
  EXPECT_THROW(generate::source_tokens(*bytes, "abc", 3), base::InputError);
  EXPECT_THROW(generate::source_tokens(*bytes, "", 3), base::InputError);
}

}  // namespace pairs_test
}  // namespace trainyard::test
