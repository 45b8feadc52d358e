// Joining events with a clock, and views into flat units.
#include "libtrain/params/context.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"

namespace trainyard::params {

void StoreContext::join(const tensor::Event& event) {
  if (compute.on_gpu()) {  // the stream waits, not this thread
    const tensor::Span blocked(compute);
    return compute.wait(event);
  }
  if (event.done()) {
    event.wait();  // rethrows what went wrong on the other thread
    return;
  }
  const double start = base::steady_seconds();
  compute.wait(event);
  wait_seconds += base::steady_seconds() - start;
}

base::View flat_range(base::View flat, std::int64_t first, std::int64_t count) {
  TRAINYARD_ASSERT(first >= 0 && first + count <= flat.count(), "range [{}, {}) of {}", first, first + count,
                   flat.count());
  return base::View(static_cast<char*>(flat.data) + first * base::size_of(flat.dtype), flat.dtype, {count},
                    flat.device);
}

base::View slot_view(const plan::UnitLayout& layout, base::View whole, int slot) {
  const auto p = static_cast<std::size_t>(slot);
  const auto& shape = layout.shapes[p];
  const auto flat = flat_range(whole, layout.offsets[p], layout.count(p));
  return shape.size() == 1 ? flat : flat.reshaped({shape[0], shape[1]});
}

}  // namespace trainyard::params
