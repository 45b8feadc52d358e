// Arena: one memory reservation of a fixed size and category, used as a stack. The memory report reads its high-water
// mark.
#pragma once

#include "libtrain/base/aligned.h"
#include "libtrain/base/memory_categories.h"
#include "libtrain/base/view.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::tensor {

using Category = base::MemoryCategory;
inline constexpr int category_count = static_cast<int>(base::memory_categories.size());
constexpr const char* name_of(Category c) { return base::entry_of(c).label; }

// Owned by one rank, and used by one thread at a time. The constructor reserves the memory, pages are supplied on first
// touch, and the destructor frees it. Allocations begin at multiples of 64 bytes and are not cleared. An arena never
// grows. A request beyond the capacity throws std::logic_error with category, request and capacity, because a wrong
// plan is a defect of the program.
class Arena {
 public:
  Arena(Category category, std::int64_t capacity_bytes, base::Device device = {});
  // A part of another arena, with a stack of its own: allocations in different parts may be released in any order.
  // Create all parts before anything else is allocated from the whole arena, and destroy them before it. The peak of
  // each part counts in the peak_bytes() of the whole arena.
  Arena(Arena& whole, std::int64_t capacity_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  base::View allocate(base::DType dtype, std::initializer_list<std::int64_t> shape);
  void* allocate_bytes(std::int64_t bytes);

  // Stack discipline: release(mark) frees everything that was allocated after mark().
  std::int64_t mark() const { return used_; }
  void release(std::int64_t mark);

  Category category() const { return category_; }
  std::int64_t capacity_bytes() const { return capacity_; }
  std::int64_t used_bytes() const { return used_; }  // parts count with their full size
  std::int64_t peak_bytes() const;
  base::Device device() const { return device_; }

 private:
  Category category_;
  base::Device device_;
  std::int64_t capacity_ = 0, used_ = 0, peak_ = 0;  // peak_: outside the parts
  char* memory_ = nullptr;
  Arena* whole_ = nullptr;     // set for a part only
  std::int64_t in_parts_ = 0;  // bytes in parts
  std::vector<const Arena*> parts_;
  std::int64_t peak_of_past_parts_ = 0;
};

// Zeroes memory of a host arena without touching untouched pages. Whole pages are returned to the system, which
// supplies zeroed pages at the next touch.
void clear_untouched(base::View view);

// Releases at its end what was allocated during its life.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::int64_t mark_;
};

}  // namespace trainyard::tensor
