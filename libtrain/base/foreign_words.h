// Settings of other trainers, and nearly right ones: what to use here instead.
#pragma once

#include <string>
#include <vector>

namespace trainyard::base {

enum class Spelling { flags, keys };  // "--learning-rate" or "learning-rate"

// `asked` is what was typed, "--lr", "--lr=1e-3" or "max_lr"; `names` what there is, without hyphens before them. Empty
// where nothing resembles it.
std::string foreign_word_hint(const std::string& asked, const std::vector<std::string>& names, Spelling spelling);

}  // namespace trainyard::base
