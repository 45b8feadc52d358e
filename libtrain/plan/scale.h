// Scale: one search after the other, on more and more nodes or for deeper and deeper models.
#pragma once

#include "libtrain/plan/search_answers.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

enum class Scaled { nodes, layers };
const char* name_of(Scaled what);  // "nodes"

struct Scale {
  Scaled what = Scaled::nodes;
  std::vector<std::int64_t> values;  // ascending
};
// Of "nodes=1:128", which doubles from the first to the last number, and "nodes=1,2,3,6"; also of "layers=12:96".
// UsageError for other texts, numbers that do not ascend, and more ranks or layers than there may be.
Scale scale_of_text(const std::string& text, const std::string& spelled, const Machine& machine);

// The best layout with so many nodes or layers, or why there is none.
struct ScalePoint {
  std::int64_t value = 0;
  int ranks = 0;
  BestPlan best;
};
ScalePoint scaled(const SearchOf& of, Scaled what, std::int64_t value);

// Tokens a second of all ranks.
double tokens_a_second(const FoundPlan& found);
// The tokens a second of a rank, as a share of those of `first`.
double efficiency(const FoundPlan& found, const FoundPlan& first);

}  // namespace trainyard::plan
