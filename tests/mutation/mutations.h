// Damage to files, as a function of a seed: to bytes, JSON values and TOML lines.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace mutation {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n);  // uniform in [0, n), n >= 1

struct Mutation {
  std::string content, what;  // what was done, for the message
};

// Flips a bit, truncates, doubles, removes, overwrites or inserts a piece, or exchanges two pieces.
Mutation mutate_bytes(const std::string& content, Random& random);

// Damages JSON text: mostly one value or key, sometimes bytes. The value or key is removed, doubled, renamed, given
// another type, set to a boundary number, made very long or very deep, or exchanged. The result need not be JSON.
Mutation mutate_json(const std::string& content, Random& random);

// Damages TOML text with one `key = value` a line in the same way.
Mutation mutate_toml(const std::string& content, Random& random);

}  // namespace mutation
