// Damage to files, as a function of a seed: bytes, JSON values and TOML lines.
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

// Flips a bit, truncates, doubles, removes, overwrites or inserts a piece, or exchanges two.
Mutation mutate_bytes(const std::string& content, Random& random);

// Of JSON text: mostly one value or key (removed, doubled, renamed, of another type, a number at a boundary, very long,
// very deep, exchanged with another), sometimes bytes. The result need not be JSON.
Mutation mutate_json(const std::string& content, Random& random);

// Of TOML text with one `key = value` a line, likewise.
Mutation mutate_toml(const std::string& content, Random& random);

}  // namespace mutation
