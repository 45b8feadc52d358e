// PairModel: the weights of a model with an encoder, and passes that write targets token by token, in one process.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/kv_cache.h"
#include "tools/generate/kept_weights.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trainyard::generate {

// The checkpoint's model, whose experts drop no token. InputError without an encoder.
plan::ModelConfig for_pairs(const checkpoint::Reader& reader);

// Reads every weight of the checkpoint into memory as f32 and computes in f32. A source is encoded once, alone, and
// the keys and values of each layer's cross-attention stay. So the bits of a target depend neither on other sources in
// the batch nor on the number of threads.
class PairModel {
 public:
  // Memory for so many sources at once, each of at most `source_tokens`, with so many `texts` for each, as a beam
  // search has them. 0 source_tokens: as many as the model can see.
  struct Room {
    std::int64_t sources = 1, texts = 1, source_tokens = 0;
  };
  PairModel(checkpoint::Reader& reader, int threads, const Room& room);
  const plan::ModelConfig& config() const { return config_; }
  const Room& room() const { return room_; }
  std::int64_t source_room() const { return source_room_; }
  std::int64_t target_room() const { return config_.context; }  // tokens that a decoder reads

  // Encodes the source in place `source`, and reads the first tokens of its text 0. Both functions return logits over
  // the logical vocabulary, valid until the next call.
  std::span<const float> begin(std::int64_t source, std::span<const std::int32_t> tokens,
                               std::span<const std::int32_t> first);
  // One more token of each of several texts, in one pass; the logits in the same order.
  struct Next {
    std::int64_t source, text;
    std::int32_t token;
  };
  std::vector<std::span<const float>> append(std::span<const Next> next);
  // Text i of the source goes on from where text from[i] is now.
  void reorder(std::int64_t source, std::span<const std::int64_t> from);

 private:
  std::vector<std::span<const float>> pass(const model::MicroBatch* source, std::span<const std::int32_t> tokens,
                                           std::span<model::KvCache* const> past);
  model::KvCache& text(std::int64_t source, std::int64_t text) {
    return base::at(texts_, base::at(place_, source * room_.texts + text));
  }

  plan::ModelConfig config_;
  Room room_;
  std::int64_t source_room_;
  KeptWeights weights_;
  model::Decoder decoder_;
  tensor::Arena activations_, workspace_, kept_;
  std::vector<model::SourceCache> sources_;
  // Beside the texts, each source has as many spare caches, into which texts are copied when they change places.
  std::vector<model::KvCache> texts_;
  std::vector<std::int64_t> place_, spare_;  // indices in texts_: of each text, and of the spare caches
  std::unique_ptr<tensor::Exec> exec_, one_exec_;
  model::AttentionLists lists_;
  model::Saved saved_;
  std::vector<float> logits_;
};

}  // namespace trainyard::generate
