// --search and what is asked beside it: tables of layouts.
#pragma once

#include "libtrain/plan/search_answers.h"
#include "tools/common/config_flags.h"
#include "tools/partition-model/options.h"

#include <string>

namespace trainyard::tools {

// What flags leave open is free.
plan::SearchSpace space_of(const Options& options, const ConfigFlags& flags);

// Whether one of the flags asks for a search: its product is then a table of layouts, not of one plan. UsageError for
// flags that contradict one another.
bool searches(const Options& options);

// Runs what the flags ask. Returns the text for stdout, and puts the best layout into `plan`. UsageError without a
// global batch; InputError if nothing fits.
std::string search_text(const Options& options, const plan::SearchOf& of, plan::Plan& plan);

}  // namespace trainyard::tools
