// The shard sets of a run: what $data names, read and weighed.
#pragma once

#include "libtrain/data/mixture.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/tasks.h"
#include "libtrain/plan/data_use.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

struct RunSet {
  std::string folder;
  std::string name;  // for metrics and reports: the folder's own name, or its path where two have one name
  data::SetIndex index;
  std::string field, value;               // only documents with this value; empty: all
  std::int64_t weight = 1;                // of the mixture
  double most_epochs = 0;                 // 0: no limit
  std::int64_t validation_sequences = 0;  // in one validation; 0: none
  Task task = Task::windows;
  // What each split that a run reads has of sequences, and of tokens in them. take_uses (set_windows.h) sets both.
  plan::DataUse use = {}, validation_use = {};
  std::int64_t pairs_left_out = 0;  // of the training split, because they are longer than a row
};

// Reads the indexes. All sets have one tokenizer: InputError otherwise. UsageError if nothing says how much of each set
// a run reads.
std::vector<RunSet> read_sets(const RunConfig& config);

// InputError if the set is of a field that it does not keep, or of a value that no document of either split has.
void require_field(const RunSet& set);

// UsageError if $answers-only does not go with the model; InputError if a set does not mark answers.
void require_answers(const RunConfig& config, const plan::ModelConfig& model, const std::vector<RunSet>& sets);

// UsageError if a set is packed for sequences of another length, or the run does not keep its documents apart.
void require_packed(const RunConfig& config, std::int64_t sequence, const std::vector<RunSet>& sets);

// Which training data this is: the hash of a single set, or each set's hash and weight.
nlohmann::json data_identity(const std::vector<RunSet>& sets);

// The tokens of each shard that the set has, of one of its splits.
std::vector<std::int64_t> tokens_of_shards(const RunSet& set, const std::vector<data::ShardEntry>& split);
// Whether a split of the set has a document: of a field's value it may have none.
bool has_split(const RunSet& set, const std::vector<data::ShardEntry>& split);
std::string text_of(const RunSet& set);  // as the user names it, on one line
// Of sequences, or of steps where $alternate-sets is on.
data::Mixture mixture_of(const std::vector<RunSet>& sets, const RunConfig& config);

// UsageError if the run would read a set more often than $max-epochs, or the set's own limit, allows. The first `step`
// steps consumed `samples_seen` samples.
void require_epochs(const std::vector<RunSet>& sets, const RunConfig& config, std::int64_t sequence, std::int64_t step,
                    std::int64_t samples_seen);

}  // namespace trainyard::engine
