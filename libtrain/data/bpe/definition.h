// Definition: what BPE needs of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data::bpe {

struct Merge {
  std::int32_t left = 0, right = 0, merged = 0;
};

struct Definition {
  std::vector<std::string> tokens;  // by id; empty where the id has no token of text
  std::vector<Merge> merges;        // in order of rank
  bool ignore_merges = false;       // a piece that is a token becomes that token, without merges
};

}  // namespace trainyard::data::bpe
