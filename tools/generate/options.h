// The options of the command line.
#pragma once

#include "tools/generate/continuation.h"
#include "tools/generate/sampler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::generate {

struct Options {
  std::string checkpoint, tokenizer;
  std::optional<std::string> prompt, prompt_file;
  std::optional<std::vector<std::int32_t>> prompt_ids;
  std::optional<std::string> prompts;  // a file of prompts
  std::int64_t batch = 8;              // of its prompts that are continued at once
  std::int64_t context = 0;            // tokens that the model sees at most; 0: its context
  std::int64_t tokens = 100;
  std::optional<std::int64_t> samples;  // unset: one, shown without a heading
  StopAt stop_at = StopAt::end_of_document;
  std::vector<std::string> stops;  // texts before which a continuation ends
  SamplerSettings sampler;
  bool draws = false;  // an option is given that only draws have: the temperature, its limits, a seed, samples
  std::int64_t beams = 1;
  double length_penalty = 1;
  std::string target_language;
  int threads = 0;
  bool interactive = false, no_begin = false, json = false, stream_weights = false;
};

}  // namespace trainyard::generate
