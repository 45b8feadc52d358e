// Identity: what makes two runs the same run. A resume refuses a difference unless the user names it.
#pragma once

#include "libtrain/checkpoint/run_state.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace trainyard::engine {

// Throws InputError that lists every identity field in which the checkpoint (expected) and the command line (found)
// differ, unless `allowed` names the field. UsageError if `allowed` names a field that does not exist. A model whose
// tensors have other shapes is refused whatever is allowed, because its weights fit nowhere. Changes that keep the
// shapes (dropout, epsilon, rotary base) may be allowed. The message names settings by their flags, and says where this
// run has a default. `model` is the value of --model, for the hint.
// Both identities are flat JSON objects. Their fields are model, data, seed, sequence, global_batch, micro_batch, fold
// (the file's name for local accumulation), reduction, document_mask, objective, schedule and its numbers, optimizer
// numbers, and steps. A run with another optimizer than AdamW also has optimizer; its numbers are that optimizer's. A
// masked run also has mask_rate, mask_words and mask_token. Ranks, ZeRO stage, working dtype,
// threads, recomputation and saving are free. A model that an older program wrote as text compares equal
// (plan/model_file/model_json.h).
void require_same_run(const nlohmann::json& checkpoint, const nlohmann::json& now,
                      const std::vector<std::string>& allowed, const std::string& where, const std::string& model = {});

// --change accepts this name beside fields of the identity. A checkpoint records its tokenizer as provenance, not as
// identity.
inline constexpr const char* changed_tokenizer = "tokenizer";

// UsageError with the existing names if one of `names` is no field of the identity.
void require_known_fields(const nlohmann::json& identity, const std::vector<std::string>& names);

// Names of the fields of `now` that `expected` lacks or has with another value.
std::vector<std::string> differing_fields(const nlohmann::json& expected, const nlohmann::json& now);

// Why two checkpoints may hold different numbers: their steps, each key of their identities that differs (also inside
// model and data: "model.lanes"), the checkpoint whose weights they began with, working dtype, device and instruction
// set. Null is a key that is left out. Empty: both are of one run, at one step. Parallel layouts are no reason
// (checkpoint_layout of report.h).
struct FieldDifference {
  std::string name;
  nlohmann::json first, second;
  std::string setting = {};  // the setting that has this name in an identity, where a user should read its own
};
std::vector<FieldDifference> differences(const checkpoint::RunState& a, const checkpoint::RunState& b);
// For example "model.lanes: A has 4, B 2". `first` and `second` are the names of the two checkpoints, here A and B.
std::string text_of(const FieldDifference& difference, const std::string& first, const std::string& second);

// A hash of the canonical dump, as 16 hex digits.
std::string hash_of(const nlohmann::json& identity);

// Flag names become keys: "global-batch" is global_batch, "lr-schedule" is schedule.
std::vector<std::string> split_names(const std::string& comma_separated);

}  // namespace trainyard::engine
