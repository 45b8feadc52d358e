// Beginning: the tokens that stand before a prompt, by what the weights saw there when they were trained.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::generate {

struct Beginning {
  std::vector<std::int32_t> tokens;  // before each prompt; empty: nothing
  std::vector<std::int32_t> alone;   // where there is no prompt; empty: a prompt is needed
  std::string told;                  // a sentence for the user; empty: nothing that is not expected
};

// A model that was trained here saw what its shards have: the token that begins each document, else the end of the
// document before. An imported model saw what its tokenizer puts before each text, by the first of these that says it:
// - add_bos_token false of tokenizer_config.json, where the import found no beginning either: nothing;
// - the post_processor of the tokenizer.json;
// - the beginning that the import recorded from config.json and the tokenizer's settings;
// - add_bos_token true and bos_token of tokenizer_config.json;
// - else nothing, unless its tokenizer is bytes: such a model was trained here and exported.
// Without a prompt a model that nothing is put before begins with bos_token_id of its config.json, else an end of
// document. InputError for a token that is to stand before prompts and that the model or the tokenizer does not have.
Beginning beginning_of(const checkpoint::RunState& state, const data::Tokenizer& tokenizer,
                       const data::BeginBeside& beside);

bool is_imported(const checkpoint::RunState& state);  // its weights were trained elsewhere, and not here since

}  // namespace trainyard::generate
