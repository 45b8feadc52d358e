// Evaluation: the loss of a checkpoint on a shard set, with the same bits on any number of ranks. It reads weights only
// and writes nothing.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/evaluator.h"
#include "libtrain/engine/gate_metrics.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/world.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace trainyard::engine {

struct EvaluateConfig {
  std::string checkpoint;            // its folder, or the folder of a run: the newest whole one
  std::string split = "validation";  // or train; both are read in stored order
  std::int64_t sequences = 0;        // windows from the first on; 0: all
  RunConfig run;                     // only `evaluation_settings` are used
  // Settings that the user gave. These come from the checkpoint if not given: model, data, sequence, micro-batch,
  // source-sequence, document-mask, dtype, objective, and the shares that are hidden.
  std::set<std::string> given;
  bool stream_weights = false;  // read them from the checkpoint as they are needed, and keep none
};

// Names of the settings that change an evaluation or where it runs. All other settings concern training only.
const std::set<std::string>& evaluation_settings();

struct Evaluation {
  std::string checkpoint, data, split, dtype, document_mask, objective;
  bool answers_only = false;  // only targets that are answers count
  double mask_rate = 0;       // of a masked model, and of texts that are restored; else 0
  std::string mask_words;     // of a masked model, else ""
  std::int64_t step = 0, sequence = 0, sequences = 0;
  std::int64_t split_tokens = 0;  // of the whole split, evaluated or not
  std::int64_t tokens = 0;        // counted targets
  // Bytes of text behind the counted targets, and targets whose text is not known (data/text_bytes.h).
  std::int64_t bytes = 0, unmeasured = 0;
  std::string unmeasured_why;  // why text is not known
  double loss = 0;             // mean over targets, in nats
  double perplexity() const;
  double bits_per_byte() const;                  // NaN if the bytes are not known
  CategoryBytes predicted{}, measured{};         // arenas of this rank
  std::optional<StreamedWeights> streamed = {};  // of all ranks together; empty: the weights were kept
  std::int64_t source_sequence = 0;              // with an encoder, else 0
  double mask_span = 0;                          // of texts that are restored, else 0
  std::optional<GateMetrics> gates = {};         // of a model with experts
};

// Called on rank 0 now and then: windows done by all ranks of its pipeline stage together, windows in total, and the
// mean loss of the windows whose losses were gathered.
using EvaluateWatch = std::function<void(std::int64_t done, std::int64_t total, double loss)>;

// Collective over the world, whose parallel layout follows the settings (plan::replicas_of). Every rank returns the
// same numbers. Throws base::Error on every rank alike for what can be foreseen. UsageError for settings. InputError
// for a checkpoint that is not whole, another model than the checkpoint's, another vocabulary or tokenizer, and too few
// windows. CheckError if the loss is not finite.
// $data may name one set; std::logic_error after an evaluation of several.
Evaluation evaluate(const EvaluateConfig& config, World& world, const EvaluateWatch& watch);
// The same of each set that $data names, in order, or of each set of the run's mixture. Their weights play no part.
// What is wrong with the terms of any set is found before the first is evaluated. Rank 0 passes each result to `found`
// as soon as it is there.
std::vector<Evaluation> evaluate_sets(const EvaluateConfig& config, World& world, const EvaluateWatch& watch,
                                      const std::function<void(const Evaluation&)>& found = {});

}  // namespace trainyard::engine
