// Arena: one reservation of memory of a stated size and category, handed out as a stack. The ledger reads its
// high-water mark.
#pragma once

#include "libtrain/base/aligned.h"
#include "libtrain/base/view.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::tensor {

// The categories of the memory ledger (promise 3), in report order.
enum class Category : int {
  parameters,
  gathered_flat_groups,
  gradients,
  flat_group_gradients,
  optimizer,
  activations,
  communication_staging,
  workspace,
  save_snapshot,
};
inline constexpr int category_count = 9;
const char* name_of(Category c);

// Owned by one rank; used by one thread at a time. Memory is reserved in the constructor (first-touched lazily) and
// freed in the destructor. Allocations are 64-byte aligned and zero-filled only if `zeroed` is asked for. Never grows:
// asking for more than the capacity throws std::logic_error naming category, request and capacity, because a plan that
// was wrong is a defect.
class Arena {
 public:
  Arena(Category category, std::int64_t capacity_bytes, base::Device device = {});
  // A part of another, with a stack of its own: what is pushed on one is not under what is pushed on another. Parts are
  // made before anything else is allocated from the whole, and do not outlive it; what was the most that a part had in
  // use counts in the whole's peak_bytes().
  Arena(Arena& whole, std::int64_t capacity_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  base::View allocate(base::DType dtype, std::initializer_list<std::int64_t> shape);
  void* allocate_bytes(std::int64_t bytes);

  // Stack discipline: everything allocated after mark() is given back by release(mark).
  std::int64_t mark() const { return used_; }
  void release(std::int64_t mark);

  Category category() const { return category_; }
  std::int64_t capacity_bytes() const { return capacity_; }
  std::int64_t used_bytes() const { return used_; }  // parts as a whole
  std::int64_t peak_bytes() const;
  base::Device device() const { return device_; }

 private:
  Category category_;
  base::Device device_;
  std::int64_t capacity_ = 0, used_ = 0, peak_ = 0;  // peak_: of what is in no part
  char* memory_ = nullptr;
  Arena* whole_ = nullptr;     // of a part
  std::int64_t in_parts_ = 0;  // bytes
  std::vector<const Arena*> parts_;
  std::int64_t peak_of_past_parts_ = 0;
};

// Makes memory of an arena of the host zero, without touching what nobody has touched: whole pages are given back to
// the system, which has others of zeros for whoever touches them first.
void clear_untouched(base::View view);

// Gives back what was allocated during its life.
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
