// BlockMap: a layout of attention as an array: which blocks of queries and keys are computed.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard::base {

// What a file says, whole and in range, whoever read it; what a model makes of it: plan/file_layout.h.
struct BlockMap {
  std::int64_t block = 0;             // tokens of a block: 16, 32, 64 or 128
  std::int64_t heads = 0, n = 0;      // n blocks of queries and as many of keys; heads 1: the same for all
  std::vector<std::uint8_t> present;  // [heads, n, n], row i of queries: 1 where column j of keys is computed, else 0
};

}  // namespace trainyard::base
