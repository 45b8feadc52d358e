// TextBytes: how many bytes of text the targets of a sequence represent. Bits per byte are measured over these bytes.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/window_dataset.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data {

// Counts bytes of the text that the tokens decode to. For byte tokens this is the text itself. A SentencePiece model
// may have normalised the text before (datasets/README.md).
class TextBytes {
 public:
  // Byte tokens need no file. A SentencePiece set needs its model file, where the index names it. If the file is
  // missing or another one, every target counts as unmeasured, and why_not() gives the reason.
  TextBytes(const std::string& folder, const SetIndex& index);
  const std::string& why_not() const { return why_not_; }  // empty: the tokenizer is available

  // unmeasured: targets whose text is not known.
  struct Count {
    std::int64_t bytes = 0, unmeasured = 0;
  };
  // Adds the targets of nonzero weight among the `n` tokens of one window.
  void add(const WindowPtrs& window, std::int64_t n, Count& count) const;

 private:
  std::vector<std::int32_t> start_, inside_;  // bytes of each token; -1: not known
  std::int32_t end_of_document_, begin_of_document_;
  std::string why_not_;
};

}  // namespace trainyard::data
