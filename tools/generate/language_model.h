// LanguageModel: the weights of a checkpoint and a decoder that computes the logits of the next token, in one process.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/kv_cache.h"
#include "tools/generate/kept_weights.h"
#include "tools/generate/streamed_store.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trainyard::generate {

// Returns the folder of a checkpoint: `path` itself, or the newest whole checkpoint in it or in its subfolder
// `checkpoints` (of a run). InputError when there is none.
std::string find_checkpoint(const std::string& path);

// The checkpoint's model as programs compute it that read text. Only a causal model predicts next tokens (InputError).
// Experts drop no token, so that a token does not depend on the tokens that are read with it. `room`: of a longer
// context only so many tokens, where the weights do not depend on it; 0: all.
plan::ModelConfig for_generation(const checkpoint::Reader& reader, std::int64_t room = 0);

// The threads for a pass over one token: one for each MiB of a layer's weights, at most `threads`.
int threads_for_one(const plan::ModelConfig& model, int threads);

// kept: every weight is in memory. streamed: each pass reads them from the checkpoint (streamed_store.h); the same
// bits.
enum class WeightsAre { kept, streamed };

// Reads every weight of the checkpoint into memory as f32 (bf16 is widened exactly) and computes in f32. `threads` is
// the most that a pass uses. One token of a small model is computed before a team of threads has assembled. So a pass
// over one token uses one thread for each MiB of a layer's weights. The bits do not depend on the number of threads.
class LanguageModel {
 public:
  // Memory for so many texts at once, each of at most `room` tokens (0: as many as the model can see).
  struct Texts {
    std::int64_t count = 1, room = 0;
  };
  LanguageModel(checkpoint::Reader& reader, int threads, WeightsAre weights = WeightsAre::kept)
      : LanguageModel(reader, threads, weights, Texts()) {}
  LanguageModel(checkpoint::Reader& reader, int threads, WeightsAre weights, const Texts& texts);
  ~LanguageModel();
  const plan::ModelConfig& config() const;  // the checkpoint's, but its experts drop no tokens
  // Both return logits over the logical vocabulary, valid until the next call. begin: forgets all earlier tokens of the
  // text and reads `tokens` (1 to room() of them) in one pass. append: reads one more token, at the cost of one token;
  // the text may not be full.
  std::span<const float> begin(std::span<const std::int32_t> tokens, std::int64_t text = 0);
  std::span<const float> append(std::int32_t token) {
    const Next next{0, token};
    return append({&next, 1})[0];
  }
  // One more token of each of several texts, in one pass; the logits in the same order. They are the same bits as
  // alone.
  struct Next {
    std::int64_t text;
    std::int32_t token;
  };
  std::vector<std::span<const float>> append(std::span<const Next> next);
  // The most tokens of a text: the context or what was asked for, or less where the block layout of a file has no
  // blocks for it.
  std::int64_t room() const { return room_; }
  bool full(std::int64_t text = 0) const { return base::at(past_, text).length == room(); }

 private:
  std::vector<std::span<const float>> pass(std::span<const std::int32_t> tokens, std::span<model::KvCache* const> past);

  plan::ModelConfig config_;
  std::int64_t room_;
  std::unique_ptr<KeptWeights> weights_;     // null: they are streamed
  std::unique_ptr<StreamedStore> streamed_;  // null: they are kept
  model::Decoder decoder_;
  tensor::Arena activations_, workspace_, kept_;
  std::vector<model::KvCache> past_;               // by text
  std::unique_ptr<tensor::Exec> exec_, one_exec_;  // one_exec_: for a single token
  model::AttentionLists lists_;
  model::Saved saved_;
  std::vector<float> logits_;
};

}  // namespace trainyard::generate
