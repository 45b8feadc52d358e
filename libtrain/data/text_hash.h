// TextHash: 128 bits that tell texts apart, and a set of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard::data {

struct TextHash {
  std::uint64_t a = 0, b = 0;
  bool operator==(const TextHash&) const = default;
};

// MurmurHash3 (x64, 128 bits, seed 0) of Austin Appleby. Of n different texts, two have one hash with a probability of
// about n^2 / 2^129, unless somebody makes texts for that purpose.
TextHash hash_of_text(std::string_view text);

// Takes 22 to 43 bytes for each hash, and while it grows half as much again.
class TextHashes {
 public:
  TextHashes() : places_(1024) {}
  bool insert(TextHash hash);  // false: it was there
  std::size_t count() const { return count_; }

 private:
  TextHash& place_of(TextHash hash);
  void grow();

  std::vector<TextHash> places_;  // a power of two; {0, 0} is an empty place
  std::size_t count_ = 0;
  bool has_zero_ = false;
};

}  // namespace trainyard::data
