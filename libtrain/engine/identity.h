// Identity: what makes two runs the same run. A resume refuses a difference unless the user names it.
#pragma once

#include "libtrain/checkpoint/run_state.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace trainyard::engine {

// Both are flat JSON objects. Fields of the identity: model, data, seed, sequence, global_batch, micro_batch, fold,
// reduction, document_mask, objective, of a masked one mask_rate, mask_words and mask_token, schedule and its numbers,
// optimizer numbers, steps. Ranks, ZeRO stage, working dtype, threads, recomputation and saving are free. A model that
// an older program wrote as text compares equal (plan/model_json.h). Throws InputError that lists every field that
// differs (expected from the checkpoint, found in the command line) unless `allowed` names it; also when `allowed`
// names a field that does not exist (UsageError). A model whose tensors have other shapes is refused whatever is
// allowed: its weights fit nowhere. What keeps the shapes (dropout, epsilon, rotary base) may change.
void require_same_run(const nlohmann::json& checkpoint, const nlohmann::json& now,
                      const std::vector<std::string>& allowed, const std::string& where);

// What --change names beside fields of the identity: a checkpoint records its tokenizer as where it comes from.
inline constexpr const char* changed_tokenizer = "tokenizer";

// UsageError with the names that exist when one of `names` is no field of the identity.
void require_known_fields(const nlohmann::json& identity, const std::vector<std::string>& names);

// Names of the fields of `now` that `expected` has otherwise or not at all.
std::vector<std::string> differing_fields(const nlohmann::json& expected, const nlohmann::json& now);

// Why two checkpoints may hold other numbers: their steps, each key of their identities that differs, also inside of
// model and data ("model.lanes"), working dtype, device and instruction set. Null is a key that is left out. Empty:
// they are of one run, at one step. Cuts are no reason (checkpoint_layout of report.h).
struct FieldDifference {
  std::string name;
  nlohmann::json first, second;
};
std::vector<FieldDifference> differences(const checkpoint::RunState& a, const checkpoint::RunState& b);
// "model.lanes: A has 4, B 2", where `first` and `second` are what the two are called.
std::string text_of(const FieldDifference& difference, const std::string& first, const std::string& second);

// 16 hex digits over the canonical dump.
std::string hash_of(const nlohmann::json& identity);

std::vector<std::string> split_names(
    const std::string& comma_separated);  // "global-batch" is global_batch, "lr-schedule" schedule

}  // namespace trainyard::engine
