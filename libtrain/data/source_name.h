// source_name: the name of an input as text for one line.
#pragma once

#include <string>
#include <string_view>

namespace trainyard::data {

// A path as it is written in /sources, in lists of refusals and on terminals. Control characters (also tab, line feed
// and escape) and the backslash are written as in C: \t, \n, \x1b. In a path that is no UTF-8, so is every byte above
// 127.
std::string source_name(std::string_view path);

}  // namespace trainyard::data
