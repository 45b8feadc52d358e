// One memory mapping for each arena, used as a stack.
#include "libtrain/tensor/arena.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/tensor/gpu.h"
#include "libtrain/tensor/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace trainyard::tensor {

namespace {

std::string less_memory() {
  return base::text(
      "other programs may hold memory of this machine; a training needs less with more ranks, a higher $zero or a "
      "smaller $micro-batch");
}

}  // namespace

Arena::Arena(Category category, std::int64_t capacity_bytes, base::Device device)
    : category_(category), device_(device) {
  TRAINYARD_ASSERT(capacity_bytes >= 0, "capacity {}", capacity_bytes);
  capacity_ = base::aligned(capacity_bytes);
  if (capacity_ == 0) return;
  if (device.kind == base::DeviceKind::cuda) {
    void* p = nullptr;
    if (const char* failure = gpu_module().runtime->allocate(device.index, capacity_, &p))
      throw base::EnvironmentError(fmt::format("cannot reserve {} bytes for {} on GPU {}: {}", capacity_,
                                               name_of(category), device.index, failure),
                                   less_memory());
    memory_ = static_cast<char*>(p);
    return;
  }
  void* p = base::entry_of(category).reader == base::MemoryReader::peers ? reserve_shared(capacity_) : nullptr;
  if (p == nullptr)
    p = mmap(nullptr, base::size(capacity_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
  if (p == MAP_FAILED)
    throw base::EnvironmentError(
        fmt::format("cannot reserve {} bytes for {}: {}", capacity_, name_of(category), std::strerror(errno)),
        less_memory());
  memory_ = static_cast<char*>(p);
  if (capacity_ >= (4 << 20)) madvise(p, base::size(capacity_), MADV_HUGEPAGE);
}

Arena::Arena(Arena& whole, std::int64_t capacity_bytes)
    : category_(whole.category_), device_(whole.device_), whole_(&whole) {
  TRAINYARD_ASSERT(whole.used_ == whole.in_parts_, "a part of {} beside {} bytes that are in use", name_of(category_),
                   whole.used_ - whole.in_parts_);
  const auto peak = whole.peak_;
  memory_ = static_cast<char*>(whole.allocate_bytes(capacity_bytes));
  whole.peak_ = peak;
  capacity_ = base::aligned(capacity_bytes);
  whole.in_parts_ += capacity_;
  whole.parts_.push_back(this);
}

Arena::~Arena() {
  if (whole_ != nullptr) {
    std::erase(whole_->parts_, this);
    whole_->peak_of_past_parts_ += peak_bytes();
    return;
  }
  if (memory_ == nullptr) return;
  if (device_.kind == base::DeviceKind::cuda) gpu_module().runtime->release(device_.index, memory_);
  else if (!release_shared(memory_, Pages::gone)) munmap(memory_, base::size(capacity_));
}

void* Arena::allocate_bytes(std::int64_t bytes) {
  TRAINYARD_ASSERT(bytes >= 0 && bytes <= capacity_ - used_,
                   "the plan gave {} {} bytes; {} are in use and {} more were asked for", name_of(category_), capacity_,
                   used_, bytes);  // capacity and use are aligned, so the rounded size fits too
  void* p = memory_ + used_;
  used_ += base::aligned(bytes);
  peak_ = std::max(peak_, used_ - in_parts_);
  return p;
}

std::int64_t Arena::peak_bytes() const {
  auto n = peak_ + peak_of_past_parts_;
  for (const auto* part : parts_) n += part->peak_bytes();
  return n;
}

base::View Arena::allocate(base::DType dtype, std::initializer_list<std::int64_t> shape) {
  base::View v(nullptr, dtype, shape, device_);
  v.data = allocate_bytes(v.bytes());
  return v;
}

void clear_untouched(base::View view) {
  // The largest page size: returning a part of such a page would leave small pages behind.
  constexpr std::uintptr_t page = 2 << 20;
  TRAINYARD_ASSERT(view.dense() && view.device.kind == base::DeviceKind::cpu, "rows of {} with pitch {}", view.cols(),
                   view.pitch);
  auto* begin = static_cast<char*>(view.data);
  auto* end = begin + view.bytes();
  auto* first = begin + (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
  auto* last = end - reinterpret_cast<std::uintptr_t>(end) % page;
  const auto bytes = first < last ? base::size(last - first) : 0;
  // MADV_DONTNEED would not clear shared memory: its content would come back from the file.
  const bool shared = shared_place(begin, 1).region != 0;
  if (bytes == 0 || madvise(first, bytes, shared ? MADV_REMOVE : MADV_DONTNEED) != 0) first = last = end;
  std::memset(begin, 0, base::size(first - begin));
  std::memset(last, 0, base::size(end - last));
}

void Arena::release(std::int64_t mark) {
  TRAINYARD_ASSERT(mark >= in_parts_ && mark <= used_ && mark % base::alignment_bytes == 0, "release to {} of {}", mark,
                   used_);
  used_ = mark;
}

}  // namespace trainyard::tensor
