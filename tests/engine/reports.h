// What the reports of a run say of memory and traffic.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace trainyard::testing {

// Every line of every rank's tables ends with a difference of 0, but the headings and what libraries take outside the
// arenas.
inline void expect_no_difference(const std::vector<std::string>& reports, const std::string& where) {
  for (const auto& report : reports) {
    std::istringstream lines(report);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.find("predicted") != std::string::npos || line.find("announced") != std::string::npos ||
          line.starts_with("outside"))
        continue;
      EXPECT_TRUE(line.ends_with(" 0")) << line << "\n" << where;
    }
  }
}

}  // namespace trainyard::testing
