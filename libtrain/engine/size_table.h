// SizeTable: predicted bytes beside measured bytes.
#pragma once

#include "libtrain/base/number_text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

struct SizeTable {
  struct Row {
    std::string name;
    std::int64_t predicted = 0, measured = 0;
    std::string verdict;  // printed instead of the difference, if equality was not promised
  };
  std::string title, predicted;  // headings of the first two columns: "memory", "predicted"
  std::vector<Row> rows;

  // One line a row: name, predicted, measured, difference. The difference is 0 only where the bytes are equal, also
  // when sizes are rounded.
  std::string text(base::Sizes sizes = base::Sizes::exact) const;
};

}  // namespace trainyard::engine
