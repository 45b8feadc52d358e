// Mixture: which of several shard sets gives a sequence, and which of the set's samples it is (decision 10b).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// One set of a mixture as the user names it: "wiki:0.7:2".
struct NamedSet {
  std::string folder;
  std::string weight = {};             // a decimal number; empty: not given
  std::string field = {}, value = {};  // only documents with this value of the field: "web[lang=de]"; empty: all
  std::optional<double> epochs = {};   // the most times that the set may be read
  bool operator==(const NamedSet&) const = default;
};

inline constexpr int most_sets = 64;

// The sets of a text: PATH[:WEIGHT[:EPOCHS]], separated by commas, where PATH may end with [FIELD=VALUE]. In VALUE,
// "]]" stands for one bracket, and every other character for itself. A text that names a folder is that folder,
// whatever characters it has. UsageError, which begins with `spelled`, for numbers out of range, weights of some sets
// alone, and a set that is named twice.
std::vector<NamedSet> sets_of(const std::string& text, const std::string& spelled);
// The folder of a text's first set, which has the tokenizer of all.
std::string first_folder(const std::string& text);
// The texts as one with all their sets. Nothing if all are equal, or if one is a folder whose name reads like several
// sets; then the last one counts.
std::optional<std::string> joined_sets(const std::vector<std::string>& texts);
// "PATH" or "PATH[FIELD=VALUE]", as sets_of reads it.
std::string name_of(const NamedSet& set);
// Whether the text names one folder by its path alone.
bool is_one_folder(const std::string& text);

// Whole numbers in the proportions of decimal texts, without a common factor.
std::vector<std::int64_t> weights_of(std::span<const std::string> decimals);
// Weights in the proportions of sizes^(1 / temperature), the largest 2^20 and each at least 1, then without a common
// factor.
std::vector<std::int64_t> weights_of_sizes(std::span<const std::int64_t> sizes, double temperature);

// Sequence i of a run belongs to one set, which follows from i, the weights and the seed alone. Set k stands in a
// chain: of the r sequences that the sets before it left, it takes floor((r w + o) / R), where w is its weight, R the
// sum of its and all later weights, and o a number below R from the seed. So of every (sum of weights) sequences that
// begin at a multiple of it, each set gives exactly its weight, and of any first n sequences a set gives its share, up
// to less than the number of sets.
// With `together` above 1, the rule chooses for turns of so many sequences instead, and all sequences of a turn come
// from one set. Turns begin at multiples of `together`. Where it is the global batch, a step is a turn, and steps
// alternate between sets in the proportions of the weights.
class Mixture {
 public:
  Mixture(std::vector<std::int64_t> weights, std::uint64_t seed, std::int64_t together = 1);
  struct Sample {
    int set = 0;
    std::uint64_t ordinal = 0;  // of the set's own samples, from 0
  };
  Sample of(std::uint64_t index) const;
  // How many of the sequences below `end` each set gives.
  std::vector<std::uint64_t> counts(std::uint64_t end) const;
  int sets() const { return static_cast<int>(weights_.size()); }
  const std::vector<std::int64_t>& weights() const { return weights_; }
  double share(int set) const;
  std::int64_t together() const { return together_; }

 private:
  Sample turn(std::uint64_t index) const;
  std::uint64_t taken(std::size_t set, std::uint64_t left) const;
  std::vector<std::int64_t> weights_, rest_, offsets_;  // rest_: sum of a weight and of all later ones
  std::int64_t together_;
};

}  // namespace trainyard::data
