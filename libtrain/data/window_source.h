// WindowSource: sequences by their number, from one shard set or from several. SampledWindows: those of one set.
#pragma once

#include "libtrain/data/window_ptrs.h"

#include <cstdint>

namespace trainyard::data {

enum class DocumentMask { off, on };
enum class Order { keyed, as_stored };  // validation is read as stored, the same every time

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

// The sequences of one set, of which an epoch has count(). Sample ordinal s is one of epoch s / count().
class SampledWindows : public WindowSource {
 public:
  virtual std::uint64_t count() const = 0;
  void fill(std::uint64_t ordinal, const WindowPtrs& out) final { fill_as(ordinal, ordinal, out); }
  // The same, where all else that is drawn for it in training depends on `sample` instead.
  virtual void fill_as(std::uint64_t ordinal, std::uint64_t sample, const WindowPtrs& out) = 0;
};

}  // namespace trainyard::data
