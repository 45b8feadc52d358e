// Runs a parser on many damaged files, in children of this process, so that a crash or a hang is seen and named with
// its seed.
#pragma once

#include "tests/mutation/mutations.h"

#include <functional>
#include <string>

namespace mutation {

struct Kind {
  std::string name;
  std::function<Mutation(Random&)> mutate;
  // Reads the content as the programs do. "" when it was accepted rightly: with the same result as the undamaged file,
  // or with what the format leaves free; else what is wrong. What the parser throws is the harness's business: an Error
  // of exit code 2 or 3 that says something is a refusal, all else is a failure.
  std::function<std::string(const std::string& content)> judge;
};

// TRAINYARD_MUTATIONS cases (300) with seeds from TRAINYARD_MUTATION_SEED (1) on; "random" takes a new first seed.
// Prints seeds and counts, with TRAINYARD_MUTATION_SHOW what was accepted. A gtest failure for each case that ends by a
// signal, takes longer than 20 s, throws what would be exit 1, 4 or 5, or is accepted wrongly; gives up after ten.
// Fails too when everything was refused or everything accepted: then the mutations say nothing.
void run(const Kind& kind);

}  // namespace mutation
