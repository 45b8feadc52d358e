// LanguageModel: the weights of a checkpoint and a decoder that computes the logits of the next token, in one process.
#pragma once

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
// Experts drop no token, so that a token does not depend on the tokens that are read with it.
plan::ModelConfig for_generation(const checkpoint::Reader& reader);

// kept: every weight is in memory. streamed: each pass reads them from the checkpoint (streamed_store.h); the same
// bits.
enum class WeightsAre { kept, streamed };

// Reads every weight of the checkpoint into memory as f32 (bf16 is widened exactly) and computes in f32. `threads` is
// the most that a pass uses. One token of a small model is computed before a team of threads has assembled. So a pass
// over one token uses one thread for each MiB of a layer's weights. The bits do not depend on the number of threads.
class LanguageModel {
 public:
  LanguageModel(checkpoint::Reader& reader, int threads, WeightsAre weights = WeightsAre::kept);
  ~LanguageModel();
  const plan::ModelConfig& config() const;  // the checkpoint's, but its experts drop no tokens
  // Both return logits over the logical vocabulary, valid until the next call. begin: forgets all earlier tokens and
  // reads `tokens` (1 to room() of them) in one pass. append: reads one more token, at the cost of one token; the model
  // may not be full.
  std::span<const float> begin(std::span<const std::int32_t> tokens);
  std::span<const float> append(std::int32_t token);
  // The most tokens: the context, or less where the block layout of a file has no blocks for it.
  std::int64_t room() const { return room_; }
  bool full() const { return past_.length == room(); }

 private:
  std::span<const float> pass(std::span<const std::int32_t> tokens);

  plan::ModelConfig config_;
  std::int64_t room_;
  std::unique_ptr<KeptWeights> weights_;     // null: they are streamed
  std::unique_ptr<StreamedStore> streamed_;  // null: they are kept
  model::Decoder decoder_;
  tensor::Arena activations_, workspace_, kept_;
  model::KvCache past_;
  std::unique_ptr<tensor::Exec> exec_, one_exec_;  // one_exec_: for a single token
  model::AttentionLists lists_;
  model::Saved saved_;
  std::vector<std::int32_t> positions_, starts_;
  std::vector<std::uint8_t> counted_;
  std::vector<float> logits_;
};

}  // namespace trainyard::generate
