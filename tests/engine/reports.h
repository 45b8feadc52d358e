// What the reports of a run say of memory and traffic.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace trainyard::testing {

// Every line of every rank's tables ends with a difference of 0, but the headings and what libraries take outside the
// arenas. A rank that idles in the last round may have less in flight than the others of its stage: its activations are
// not asked for.
inline void expect_no_difference(const std::vector<std::string>& reports, const std::string& where,
                                 const std::function<bool(std::size_t rank)>& idles = {}) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    std::istringstream lines(reports[rank]);
    for (std::string line; std::getline(lines, line);) {
      if (idles && idles(rank) && (line.starts_with("activations") || line.starts_with("total"))) continue;
      if (line.empty() || line.find("predicted") != std::string::npos || line.find("announced") != std::string::npos ||
          line.starts_with("outside"))
        continue;
      EXPECT_TRUE(line.ends_with(" 0")) << "rank " << rank << ": " << line << "\n" << where;
    }
  }
}

}  // namespace trainyard::testing
