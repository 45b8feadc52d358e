// Multiply-adds in registers; streaming stores.
#include "kernels/peak/chains_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Stores a vector past the caches. `to` is aligned to the vector's size.
inline void put_past(float* to, Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, v);
#elif defined(__AVX2__)
  _mm256_stream_ps(to, v);
#else
  _mm_stream_ps(to, v);
#endif
}

void stream_part(const StreamArgs& a, int64_t first, int64_t end) {
  constexpr int64_t width = 4 * lanes;
  int64_t at = first;
  while (at < end && reinterpret_cast<std::uintptr_t>(a.to + at) % width != 0)
    a.to[at] = a.from == nullptr ? static_cast<char>(a.byte) : a.from[at], ++at;
  std::uint32_t word;
  std::memset(&word, a.byte, 4);
  const Vec filled = broadcast(bits_to_float(word));
  for (; at + width <= end; at += width)
    put_past(reinterpret_cast<float*>(a.to + at),
             a.from == nullptr ? filled : load(reinterpret_cast<const float*>(a.from + at)));
  for (; at < end; ++at) a.to[at] = a.from == nullptr ? static_cast<char>(a.byte) : a.from[at];
#if defined(__SSE2__)
  _mm_sfence();  // makes this thread's streaming stores visible to others
#endif
}

}  // namespace

int64_t multiply_adds_cpu(const PeakArgs& a) {
  const Vec factor = broadcast(0.9999f), term = broadcast(1e-4f);  // the sum goes to 1 and stays there
  return 2 * run_chains(
                 a, [=](Vec sum) __attribute__((always_inline)) { return fma(sum, factor, term); });
}

void stream_cpu(const StreamArgs& a) {
  const int64_t share = ((a.bytes + a.threads - 1) / a.threads + 4095) / 4096 * 4096;
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int t = 0; t < a.threads; ++t)
    if (t * share < a.bytes) stream_part(a, t * share, (t + 1) * share < a.bytes ? (t + 1) * share : a.bytes);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
