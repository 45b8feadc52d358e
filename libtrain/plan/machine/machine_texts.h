// The texts of the machine files of this folder, which the build makes a part of the program.
#pragma once

#include <map>
#include <string>

namespace trainyard::plan {

// By name, which is the file's without its ending.
const std::map<std::string, std::string>& machine_texts();

}  // namespace trainyard::plan
