// Small runs of models with an encoder, of eight items each: embedding, three layers, bridge, two layers, head.
#pragma once

#include "tests/engine/pair_set.h"
#include "tests/engine/small_run.h"

#include <array>

namespace trainyard::testing {

// Pairs by an encoder-decoder of GPT-2's form; spans of texts by one of Llama's, with experts in both towers; both in
// turns, with texts infilled. The last one restores spans with a T5.
inline engine::RunConfig encoder_run(SmallRun& runs, int model, const std::string& output) {
  auto c = runs.config(output);
  const std::string both = "hidden = 32\nheads = 4\nffn = 64\ncontext = 64\nlanes = 2\n";
  const std::array<std::string, 4> models = {
      both +
          "dropout-embedding = 0.1\ndropout-attention = 0.1\ndropout-attention-residual = 0.2\n"
          "dropout-ffn-residual = 0.1\n[encoder]\nlayers = 3\n[decoder]\nlayers = 2\n",
      both +
          "norm = \"rms\"\nactivation = \"swiglu\"\nbiases = \"off\"\ntied = \"off\"\n[encoder]\nlayers = 3\n"
          "[decoder]\nlayers = 2\n[experts]\ncount = 4\nevery = 2\ncapacity-factor = 1\n"
          "evaluation-capacity-factor = 2\n",
      both + "norm-position = \"post\"\nactivation = \"relu\"\n[encoder]\nlayers = 3\n[decoder]\nlayers = 2\n",
      both +
          "norm = \"rms\"\nactivation = \"geglu-tanh\"\nbiases = \"off\"\npositions = \"relative\"\n"
          "relative-buckets = 8\nrelative-distance = 12\nquery-scale = 1\nhead-size = 12\nhead-scale = 0.2\n"
          "initial-values = \"fan-in\"\ndropout-embedding = 0.1\ndropout-attention = 0.1\n"
          "dropout-attention-residual = 0.1\ndropout-ffn = 0.1\ndropout-ffn-residual = 0.1\n"
          "dropout-final-norm = 0.1\n[encoder]\nlayers = 3\n[decoder]\nlayers = 2\nstart = 0\n"};
  c.model = runs.model(fmt::format("towers-{}", model), models.at(static_cast<std::size_t>(model)));
  const auto pairs = (runs.folder() / "pairs").string(), texts = (runs.folder() / "data").string();
  const bool spans = model == 1 || model == 3;
  if (!spans && !fs::exists(pairs)) write_pairs(runs, "pairs", 200);
  c.data = model == 0 ? pairs : spans ? texts : fmt::format("{}:2,{}:1", pairs, texts);
  if (model == 2) c.objective = "infilling-permuted", c.alternate_sets = true, c.label_smoothing = 0.1;
  c.sequence = 32, c.source_sequence = 64;
  c.steps = 3, c.micro_batch = 4, c.global_batch = 24;
  c.validate_every = 3, c.validation_sequences = 4;
  return c;
}

// Losses of sets and of validations, too.
inline std::string bits_with_sets(SmallRun& runs, const engine::RunConfig& c, const engine::RunResult& r) {
  auto bits = runs.bits(c, r);
  for (const auto& line : SmallRun::metrics(c))
    bits += line.value("sets", nlohmann::json()).dump() + line.value("validation_loss", nlohmann::json()).dump() + "\n";
  return bits;
}

}  // namespace trainyard::testing
