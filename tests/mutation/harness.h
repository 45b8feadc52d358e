// Runs a parser on many damaged files, in child processes, so that a crash or a hang is noticed and named with its
// seed.
#pragma once

#include "tests/mutation/mutations.h"

#include <functional>
#include <string>

namespace mutation {

struct Kind {
  std::string name;
  std::function<Mutation(Random&)> mutate;
  // Reads the content as the programs do. Returns "" if it was accepted rightly: with the result of the undamaged file,
  // or with a difference that the format allows. Else returns what is wrong. The harness judges exceptions: an Error of
  // exit code 2 or 3 with a message is a refusal, any other exception is a failure.
  std::function<std::string(const std::string& content)> judge;
};

// Runs TRAINYARD_MUTATIONS cases (300) with seeds from TRAINYARD_MUTATION_SEED (1) on; "random" takes a random first
// seed. Prints seeds and counts, and with TRAINYARD_MUTATION_SHOW what was accepted. A case is a gtest failure if it
// ends by a signal, takes longer than 20 s, or is accepted wrongly. So is a case that throws what would be exit 1, 4 or
// 5. Gives up after ten failures. Fails also if everything was refused or everything accepted, because then the
// mutations show nothing.
void run(const Kind& kind);

}  // namespace mutation
