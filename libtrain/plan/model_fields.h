// The one description of a model: its keys in a TOML file, in plans and in checkpoints, their ranges, and what they
// mean.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/plan/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

std::vector<base::Field> fields_of(ModelConfig& model);

// Does the field say what the model, or a file that it was made from, is called? Two models that differ in these alone
// are the same, and the identity of a run leaves them out.
bool is_name(const base::Field& field);

// Bytes of a text. No model has more, so that what is written can be read.
std::size_t longest_text(const base::Field& field);

// What the keys are that a model file leaves out, from those that it gives: heads of 64 channels, as many key-value
// heads, a feed-forward part of the usual width.
void follow(ModelConfig& model, const std::vector<base::Field>& fields);

// Every key with its default, range and meaning, and an example file that works as it stands: what `train --help-model`
// prints.
std::string model_reference();  // the same as a page of Markdown
std::string model_help();

}  // namespace trainyard::plan
