// WindowSource: sequences by their number, from one shard set or from several.
#pragma once

#include "libtrain/data/window_ptrs.h"

#include <cstdint>

namespace trainyard::data {

enum class DocumentMask { off, on };

// Only one thread at a time may call fill.
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  virtual std::int64_t sequence() const = 0;                  // tokens of a window
  virtual std::int64_t source_sequence() const { return 0; }  // tokens of its source; 0: it has none
  virtual DocumentMask document_mask() const = 0;
  virtual bool hides() const = 0;  // whether fill() hides tokens (masking.h)
  virtual void fill(std::uint64_t ordinal, const WindowPtrs& out) = 0;
};

}  // namespace trainyard::data
