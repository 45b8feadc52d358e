// TextBytes: how many bytes of text the targets of a sequence stand for, which is what bits per byte are counted over.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/window_dataset.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data {

// Bytes are those of the text that the tokens decode to. For byte tokens that is the text itself; a SentencePiece model
// may have normalised it before (datasets/README.md).
class TextBytes {
 public:
  // Byte tokens need nothing; a SentencePiece set needs its model file, where the index says. Where that is not to be
  // had, or is another one, every target counts as unmeasured and why_not() says why.
  TextBytes(const std::string& folder, const SetIndex& index);
  const std::string& why_not() const { return why_not_; }  // empty: it is to be had

  struct Count {
    std::int64_t bytes = 0, unmeasured = 0;
  };  // unmeasured: targets whose text is not known
  // Adds the targets that have a weight among the `n` tokens of one window.
  void add(const WindowPtrs& window, std::int64_t n, Count& count) const;

 private:
  std::vector<std::int32_t> start_, inside_;  // by token; -1: not known
  std::int32_t end_of_document_;
  std::string why_not_;
};

}  // namespace trainyard::data
