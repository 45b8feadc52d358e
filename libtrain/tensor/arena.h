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
  gathered_units,
  gradients,
  unit_gradients,
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
  std::int64_t used_bytes() const { return used_; }
  std::int64_t peak_bytes() const { return peak_; }
  base::Device device() const { return device_; }

 private:
  Category category_;
  base::Device device_;
  std::int64_t capacity_ = 0, used_ = 0, peak_ = 0;
  char* memory_ = nullptr;
};

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
