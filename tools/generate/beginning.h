// Beginning: the tokens that precede a prompt, chosen by what the weights saw there in training.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::generate {

struct Beginning {
  std::vector<std::int32_t> tokens;  // before each prompt; empty: none
  std::vector<std::int32_t> alone;   // the tokens where there is no prompt; empty: a prompt is needed
  std::string reported;              // a sentence about `tokens` for the user; empty without them
};

// A model that was trained here saw what its shards have: the token that begins each document, else the end of the
// previous document. It saw no such end, and gets none, where the document mask was on, or where the run began with
// imported weights whose texts begin with no token. An imported model saw what its tokenizer puts before each text. The
// first of these that applies decides:
// - the post_processor of tokenizer.json, if it puts tokens before texts: so does transformers from version 5 on;
// - add_bos_token is false in tokenizer_config.json, and the import found no begin token either: no token;
// - the begin token that the import recorded from config.json and the tokenizer's settings;
// - add_bos_token is true in tokenizer_config.json: its bos_token;
// - else no token, unless the tokenizer is bytes: such a model was trained here and exported.
// Without a prompt, a model without such tokens begins with the bos_token_id of its config.json, else with an end of
// document. InputError for a token that would precede prompts but that the model or the tokenizer does not have.
Beginning beginning_of(const checkpoint::RunState& state, const data::Tokenizer& tokenizer,
                       const data::BeginBeside& beside);

// For example "<|begin_of_text|> (token 128000)".
std::string names_of(const data::Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens);

bool is_imported(const checkpoint::RunState& state);  // the weights were trained elsewhere, and not here since

}  // namespace trainyard::generate
