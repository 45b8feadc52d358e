// Checks the memory and traffic tables in the reports of a run.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace trainyard::testing {

// Every line of every rank's tables must end with a difference of 0, except headings and memory outside the arenas.
// `idles` names ranks that have no micro-batch in an uneven last accumulation step. Their activations are not checked,
// since they may have fewer micro-batches in flight than the plan says.
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
