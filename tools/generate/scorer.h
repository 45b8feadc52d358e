// Scorer: log-probabilities of given tokens, many texts in a pass.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "tools/generate/language_model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trainyard::generate {

// The tokens from `first` on are scored, each with all tokens before it. `first` is at least 1.
struct ToScore {
  std::vector<std::int32_t> tokens;
  std::size_t first = 1;
};

struct Score {
  std::vector<double> log_probabilities;  // natural, of each scored token, by the plain softmax in double
  std::int64_t likeliest = 0;             // how many of them no other token beats
  double sum() const;
};

// Computes in f32, as LanguageModel does. The scores do not depend on the number of threads, on the batch, or on the
// other texts.
class Scorer {
 public:
  // At most `batch` texts are in a pass.
  Scorer(checkpoint::Reader& reader, int threads, std::int64_t batch, WeightsAre weights = WeightsAre::kept);
  ~Scorer();
  const plan::ModelConfig& config() const { return config_; }
  // The most tokens before a scored one: the context, or less where the block layout of a file has no blocks for it.
  std::int64_t room() const { return room_; }
  // Texts may have at most room() + 1 tokens. They are read in order of length, and memory follows the longest.
  // CheckError when a logit is not finite.
  std::vector<Score> score(std::span<const ToScore> texts);

 private:
  struct Memory;
  void pass(std::span<const ToScore* const> texts, std::span<Score* const> scores);
  plan::ModelConfig config_;
  std::int64_t room_, batch_;
  int threads_;
  std::unique_ptr<KeptWeights> kept_;        // null: they are streamed
  std::unique_ptr<StreamedStore> streamed_;  // null: they are kept
  model::Decoder decoder_;
  std::unique_ptr<Memory> memory_;  // for the longest text so far
};

}  // namespace trainyard::generate
