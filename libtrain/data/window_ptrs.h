// WindowPtrs: pointers to the arrays of one sequence.
#pragma once

#include <cstdint>

namespace trainyard::data {

// The source of one sequence, for a model with an encoder: S tokens to fill, and what the T tokens of the sequence see
// of them.
struct SourcePtrs {
  std::int32_t *tokens = nullptr, *positions = nullptr;     // [S]; nullptr: there is no source
  std::int32_t *begin = nullptr, *end = nullptr;            // [S]: where in the source each token's document is
  std::int32_t *seen_begin = nullptr, *seen_end = nullptr;  // [T]: the source's places that a token sees
};

// One sequence of T tokens to fill.
struct WindowPtrs {
  std::int32_t *tokens, *targets, *positions, *document_start;
  std::uint8_t* weights;
  std::int32_t* key_end = nullptr;  // nullptr: not wanted
  SourcePtrs source = {};
};

}  // namespace trainyard::data
