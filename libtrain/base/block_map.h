// BlockMap: a block-sparse attention layout as an array: which blocks of queries and keys are computed.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard::base {

// The content of a layout file: whole and with all values in range, whichever reader filled it. plan/spec/file_layout.h
// applies it to a model.
struct BlockMap {
  std::int64_t block = 0;             // tokens in a block: 16, 32, 64 or 128
  std::int64_t heads = 0, n = 0;      // n blocks of queries and n of keys; heads 1: all heads share it
  std::vector<std::uint8_t> present;  // [heads, n, n]: 1 where block row i of queries and column j of keys is computed,
                                      // else 0
};

}  // namespace trainyard::base
