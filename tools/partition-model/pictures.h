// --draw, --svg and --frontier: where pictures go, and the text that is printed beside them.
#pragma once

#include "libtrain/plan/search_answers.h"
#include "tools/partition-model/options.h"

#include <string>

namespace trainyard::tools {

// Before any work: refuses pictures that belong to no other flag, and places that may not or cannot be written.
// UsageError, EnvironmentError.
void refuse_pictures(const Options& options);

// Writes the picture of --draw, if asked. Returns what is to be printed: `text`, or the picture for "-".
std::string with_step_picture(const Options& options, const plan::Plan& plan, const plan::Machine& machine,
                              const plan::Execution& execution, std::string text);

// --scale and --frontier: tables, or JSON lines, and their pictures. InputError if nothing fits at all.
std::string scale_text(const Options& options, const plan::SearchOf& of);
std::string frontier_text(const Options& options, const plan::SearchOf& of);

}  // namespace trainyard::tools
