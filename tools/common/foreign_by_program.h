// Names that other trainers give to what generate, score and shard-data do, or do not do.
#pragma once

#include "tools/common/foreign_names.h"

#include <string>
#include <vector>

namespace trainyard::tools {

// The table of the program that has these flags; empty for other programs. Its sentences hold for this program alone,
// so those without a name of ours count, too.
const std::vector<ForeignName>& foreign_names_of_program(const std::vector<std::string>& names);

}  // namespace trainyard::tools
