// Answers that take several searches: why a layout is not the best, the fewest nodes, the largest model, what more of a
// machine would give. Scaling is in plan/scale.h, and less memory in plan/frontier.h.
#pragma once

#include "libtrain/plan/search.h"

#include <optional>
#include <string>
#include <vector>

namespace trainyard::plan {

// Everything that a search needs but the timer.
struct SearchOf {
  Plan plan;
  SearchSpace space;
  SearchLimits limits;
  Machine machine;
  Execution execution = {};
  Kernels kernels = Kernels::ours;
};
SearchResult search(const SearchOf& of);
// Why a search found nothing, and what to try: "none of 120 layouts fits 80.0 GB a rank on 8 ranks".
struct NoLayout {
  std::string why, hint;     // the hint is empty where more memory or ranks would help
  bool of_settings = false;  // no layout is possible, whatever the memory and the machine
  [[noreturn]] void refuse(const std::string& more_memory) const;  // UsageError or InputError; the hint, or this one
};
NoLayout why_none(const SearchOf& of, const SearchResult& result);

// The best layout alone, or why there is none.
struct BestPlan {
  std::optional<FoundPlan> found;
  std::string why_none;  // empty: found
};
BestPlan best_of(SearchOf of);
BestPlan best_of(SearchOf of, StepTimer& timer);  // which several searches of one model and machine may share

// The plan on so many ranks.
Plan on_ranks(Plan plan, int ranks);

// One sentence about the layouts with these settings ("tensor-parallel=2,zero=3"), of which the best is meant: it is
// refused, or does not fit and what would fit, or takes so much longer than `best`, for what, and which single change
// would help most. If none is possible or fits, the others have the values of the search's plan. `best` is the first of
// search().best. UsageError, whose message begins with `spelled`.
std::string why_not(const SearchOf& of, const std::string& settings, const std::string& spelled, const FoundPlan& best);

struct OnNodes {
  int nodes = 0;
  FoundPlan found;
};
// The fewest nodes of the machine, at most `most`, on which some layout fits, with its fastest layout. Numbers of nodes
// whose ranks no layout divides the batch among do not count. nullopt: none.
std::optional<OnNodes> fewest_nodes(const SearchOf& of, int most);

// The model with the most layers of which some layout fits, and its fastest layout. nullopt: none of up to 64 layers
// fits or is possible.
std::optional<FoundPlan> largest_model(const SearchOf& of);

// The seconds of the best layout if the machine had a tenth more of something.
struct ShadowPrice {
  const char* what;
  double seconds = 0;
};
// "-2.1 %" of the seconds of the best layout without it; "0.0 %", without a sign, for what rounds to it.
std::string change_text(const ShadowPrice& price, double seconds);
std::vector<ShadowPrice> shadow_prices(const SearchOf& of);

}  // namespace trainyard::plan
