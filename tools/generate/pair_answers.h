// Answers of a model with an encoder: a target for each source, several at a time.
#pragma once

#include "libtrain/data/tokenizer.h"
#include "tools/generate/continuation.h"
#include "tools/generate/pair_model.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::generate {

struct PairRequest {
  std::vector<std::int32_t> source;  // at most PairModel::source_room() tokens, its end among them
  std::vector<std::int32_t> first;   // what the decoder reads first: its start, and the target's language
  std::uint64_t seed = 0;
};

struct PairAnswer {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::vector<double> log_probabilities;  // of these tokens
  Stopped stopped = Stopped::length;
  std::optional<double> score;  // of a beam search
};

struct PairSettings {
  ContinuationSettings continuation;
  SamplerSettings sampler;  // its seed comes from the request
  std::int64_t beams = 1;   // 1: the sampler chooses; above: a beam search does
  double length_penalty = 1;
  std::vector<std::string> stops = {};
};

// Asks `next` for requests while it gives some, and answers as many at once as the model has room for. `done` gets each
// answer in the order of the requests, and returns whether to go on. A target has fewer tokens than the settings say
// where the model has no room for more.
void answer_requests(PairModel& model, const data::Tokenizer& tokenizer, const PairSettings& settings,
                     const std::function<std::optional<PairRequest>()>& next,
                     const std::function<bool(std::int64_t number, const PairAnswer& answer)>& done);

}  // namespace trainyard::generate
