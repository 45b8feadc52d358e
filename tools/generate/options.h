// The options of the command line.
#pragma once

#include "tools/generate/continuation.h"
#include "tools/generate/sampler.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::generate {

struct Options {
  std::string checkpoint, tokenizer;
  std::optional<std::string> prompt, prompt_file;
  std::int64_t tokens = 100;
  std::optional<std::int64_t> samples;  // unset: one, shown without a heading
  StopAt stop_at = StopAt::end_of_document;
  SamplerSettings sampler;
  int threads = 0;
  bool interactive = false, no_begin = false, json = false, stream_weights = false;
};

}  // namespace trainyard::generate
