// Problem: what is wrong with a plan, with what to try.
#pragma once

#include <string>
#include <vector>

namespace trainyard::plan {

struct Problem {
  std::string message, hint;
};

// All problems as one text, each with its hint; empty without problems. Several problems are lines of "1. message (try:
// hint)".
std::string text_of(const std::vector<Problem>& problems);
// What an error reports of them: one problem keeps its hint apart; several have their hints in the message.
inline Problem as_one(const std::vector<Problem>& problems) {
  return problems.size() == 1 ? problems[0] : Problem{text_of(problems), {}};
}

}  // namespace trainyard::plan
