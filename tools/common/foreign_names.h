// The table of names that other trainers give to settings (tools/common/foreign_words.h searches it).
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

// theirs: names elsewhere, written with hyphens. ours: our name, or empty where there is no such setting. sentence:
// more about it. The first entry whose `ours` exists in the asking program is used.
struct ForeignName {
  std::vector<std::string> theirs;
  const char *ours, *sentence;
  bool of_training = false;  // other programs have a setting of this name, for which the sentence does not hold
};

const char* our_optimizers();  // the values of --optimizer, listed

inline constexpr const char* shape_is_elsewhere = "a model's shape is a preset or a file: train --help-model";

// Less common names, which follow those in foreign_words.cpp.
const std::vector<ForeignName>& more_foreign_names();

}  // namespace trainyard::tools
