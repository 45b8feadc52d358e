// The parameter inventory by formula: every logical parameter of a model, grouped into units; and a unit's flat layout.
#pragma once

#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

struct Init {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  double stddev = 0;
  bool operator==(const Init&) const = default;
};

// One logical parameter. `stored` differs from `shape` only in the rows of vocabulary tables (rounded up to 128; the extra rows are zero
// for ever). Weights are [out, in].
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape, stored;
  Init init;
  bool decay = true;   // weight decay applies (not to biases, norms, embeddings)
  std::int64_t count() const;
  std::int64_t stored_count() const;
  bool operator==(const Parameter&) const = default;
};

// What is gathered, reduced and updated together: the token table, the learned positions, one transformer layer, the final norm and head.
struct Unit {
  std::string name;                    // "embedding.tokens", "embedding.positions", "layers.07", "head"
  std::vector<Parameter> parameters;   // declaration order
};

// GPT-2: embedding.tokens, embedding.positions, layers.00 .., head (final norm; the tied token table is used again).
// Llama: embedding.tokens, layers.00 .., head (final norm, head.weight unless tied).
std::vector<Unit> units(const ModelConfig& model);
std::int64_t parameter_count(const ModelConfig& model);  // logical, each once

// Flat layout of one unit (decision 11): parameters back to back in declaration order, each starting at a multiple of 64 bytes in fp32,
// i.e. 16 elements; the whole padded to pieces * 64 elements.
struct UnitLayout {
  std::vector<std::int64_t> offsets;   // element offset of each parameter
  std::int64_t used = 0;               // end of the last parameter
  std::int64_t padded = 0;             // multiple of pieces * 64
  std::int64_t piece = 0;              // padded / pieces: elements of one rank's piece
};
UnitLayout layout(const Unit& unit, int pieces);

// The order in which a micro-batch's forward pass uses units. A tied table appears twice: use 0 by the embedding, use 1 by the head.
// Backward is the reverse.
struct Use {
  int unit;   // index into units(model)
  int use;    // 0, or 1 for the second use of a tied table
  bool operator==(const Use&) const = default;
};
std::vector<Use> uses(const ModelConfig& model);

}  // namespace trainyard::plan
