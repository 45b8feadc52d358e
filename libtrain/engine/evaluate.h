// Evaluation: the loss of a checkpoint on a shard set, on any number of ranks with the same bits. It reads weights only
// and writes nothing.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/world.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace trainyard::engine {

struct EvaluateConfig {
  std::string checkpoint;            // its folder, or a run's: the newest whole one
  std::string split = "validation";  // or train, both read as they are stored
  std::int64_t sequences = 0;        // the first so many windows; 0: all
  RunConfig run;                     // of which `evaluation_settings` are used
  std::set<std::string> given;  // settings that somebody gave; what was not given is the checkpoint's: model, data,
                                // sequence, micro-batch, document-mask, dtype, mask-rate, mask-words
};

// Names of the settings that change or place an evaluation; the others are of training.
const std::set<std::string>& evaluation_settings();

struct Evaluation {
  std::string checkpoint, data, split, dtype, document_mask, objective;
  double mask_rate = 0;    // of a masked model, else 0
  std::string mask_words;  // likewise, else ""
  std::int64_t step = 0, sequence = 0, sequences = 0;
  std::int64_t split_tokens = 0;  // of the split, evaluated or not
  std::int64_t tokens = 0;        // targets counted
  std::int64_t bytes = 0,
               unmeasured =
                   0;  // of text that they stand for; targets whose text is not known (data/text_bytes.h), and why
  std::string unmeasured_why;
  double loss = 0;  // mean over targets, in nats
  double perplexity() const;
  double bits_per_byte() const;           // not a number when it is not known
  CategoryBytes predicted{}, measured{};  // arenas of this rank
};

// On rank 0, now and then: windows done by all ranks of its stage together, of how many, and the mean loss of those
// that all ranks know of.
using EvaluateWatch = std::function<void(std::int64_t done, std::int64_t total, double loss)>;

// Collective over the world, which is cut as the settings say (plan::replicas_of); every rank returns the same numbers.
// Throws base::Error on every rank alike for what can be foreseen: UsageError for settings, InputError for a checkpoint
// that is not whole, a model that is not the checkpoint's, another vocabulary or tokenizer, too few windows; CheckError
// when the loss is not finite.
Evaluation evaluate(const EvaluateConfig& config, World& world, const EvaluateWatch& watch);

}  // namespace trainyard::engine
