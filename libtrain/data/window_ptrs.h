// WindowPtrs: pointers to the arrays of one sequence.
#pragma once

#include <cstdint>

namespace trainyard::data {

// One sequence of T tokens to fill.
struct WindowPtrs {
  std::int32_t *tokens, *targets, *positions, *document_start;
  std::uint8_t* weights;
  std::int32_t* key_end = nullptr;  // nullptr: not wanted
};

}  // namespace trainyard::data
