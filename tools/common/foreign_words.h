// Names that other trainers give to settings, and misspelled names: what to use here instead.
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

enum class Spelling { flags, keys };  // "--learning-rate" or "learning-rate"

// A hint for an unknown name. `asked` is what the user typed: "--lr", "--lr=1e-3" or "max_lr". `names` are the existing
// names, without leading hyphens. Returns "" where nothing resembles it.
std::string foreign_word_hint(const std::string& asked, const std::vector<std::string>& names, Spelling spelling);

// Gives what foreign_*.h know to the library (base/advice.h). A program with the frame of program.h has done so.
void advise_on_other_tools();

}  // namespace trainyard::tools
