// A table for people to read.
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

// Columns are as wide as their widest cell, with two spaces between. Columns whose header starts with '>' are flush
// right (the sign is dropped).
std::string table(const std::vector<std::string>& header, std::vector<std::vector<std::string>> rows);

}  // namespace trainyard::tools
