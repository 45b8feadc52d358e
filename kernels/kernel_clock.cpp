// A table of fixed size, searched by name and shape.
#include "kernels/kernel_clock.h"

#include "libtrain/base/index.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"

#include <algorithm>
#include <cstring>

namespace trainyard::kernels {

namespace {

constexpr std::size_t room = 256;  // a model has some tens of shapes

}  // namespace

namespace detail {
constinit thread_local KernelClock* kernel_clock = nullptr;
}

KernelClock::KernelClock(int threads) : rows_(room + 1), kept_(room + 1), team_(base::size(threads)) {}

void KernelClock::keep() {
  std::copy(rows_.begin(), rows_.end(), kept_.begin());
  kept_used_ = used_;
}

void KernelClock::go_back() {
  std::copy(kept_.begin(), kept_.end(), rows_.begin());
  used_ = kept_used_;
}

void KernelClock::clear() {
  std::fill(rows_.begin(), rows_.end(), Row{});
  used_ = 0;
}

void KernelClock::begin() { std::fill(team_.begin(), team_.end(), TeamSeconds{}); }

KernelClock::Row& KernelClock::row_of(const char* kernel, const KernelWork& work) {
  for (std::size_t i = 0; i < used_; ++i) {
    auto& r = rows_[i];
    const bool same_name = r.kernel == kernel || (r.kernel != nullptr && std::strcmp(r.kernel, kernel) == 0);
    if (same_name && r.work.m == work.m && r.work.n == work.n && r.work.k == work.k && r.work.of_bf16 == work.of_bf16)
      return r;
  }
  if (used_ >= room) {
    used_ = room + 1;
    return rows_[room];
  }
  auto& r = rows_[used_++];
  r.kernel = kernel;
  r.work.m = work.m, r.work.n = work.n, r.work.k = work.k, r.work.of_bf16 = work.of_bf16;
  return r;
}

void KernelClock::end(const char* kernel, const KernelWork& work, double seconds) {
  auto& r = row_of(kernel, work);
  r.work.operations += work.operations;
  ++r.calls;
  r.seconds += seconds;
  double packing = 0, computing = 0;
  for (const auto& t : team_) packing += t.packing, computing += t.computing;
  if (packing + computing == 0) return;
  r.packing += packing, r.computing += computing;
  r.team += seconds * static_cast<double>(team_.size());
}

KernelClock::Measuring::Measuring(KernelClock& clock) {
  TRAINYARD_ASSERT(detail::kernel_clock == nullptr, "a thread measures its kernels twice");
  detail::kernel_clock = &clock;
}
KernelClock::Measuring::~Measuring() { detail::kernel_clock = nullptr; }

void KernelTimer::open(const char* kernel, const KernelWork& work) {
  kernel_ = kernel, work_ = work;
  clock_->begin();
  begin_ = base::steady_seconds();
}
void KernelTimer::close() { clock_->end(kernel_, work_, base::steady_seconds() - begin_); }

}  // namespace trainyard::kernels
