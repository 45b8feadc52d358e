// What shard-data prints about its work.
#pragma once

#include "libtrain/data/build_options.h"
#include "libtrain/data/task_builder.h"
#include "tools/shard-data/settings.h"

#include <nlohmann/json.hpp>

namespace trainyard::tools {

// `trained`: the report of a new tokenizer, or null.
void print_summary(const Settings& s, const data::BuildResult& r, const nlohmann::ordered_json& trained,
                   double seconds);
// For a tokenizer without a set.
base::ExitCode print_tokenizer(const Settings& s, const data::BuildResult& r, nlohmann::ordered_json report);
// For a task that did not complete the set. It prints no path on stdout, because stdout names only what exists.
void print_waiting(const Settings& s, data::Share share, const data::TaskResult& r);

}  // namespace trainyard::tools
