// The one description of a model: its keys in TOML files, plans and checkpoints, their ranges, and what they mean.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

std::vector<base::Field> fields_of(ModelConfig& model);

// Whether the field only names the model, or a file that it was made from. Models that differ only in such fields are
// the same, and the identity of a run leaves these fields out.
bool is_name(const base::Field& field);

// The most bytes of a text field. No model has more, so what is written can be read.
std::size_t longest_text(const base::Field& field);

// Sets the keys that a model file leaves out, from the keys that it gives: heads of 64 channels, as many key-value
// heads, and a feed-forward part of the usual width.
void follow(ModelConfig& model, const std::vector<base::Field>& fields);

// model_help: every key with its default, range and meaning, and an example file that works as it is, as `train
// --help-model` prints them.
std::string model_reference();  // the same as a page of Markdown
std::string model_help();

}  // namespace trainyard::plan
