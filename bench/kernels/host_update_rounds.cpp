// AdamW over host memory beside copies of the same memory by the same threads, and beside another library's AdamW where
// one is given. All take turns on short stretches of long arrays, so that other load on the machine meets all of them,
// and each finds its stretch outside the caches.
// usage: bench_host_update THREADS [PARAMETERS [ROUNDS [GAP [PEER]]]]
// GAP: bytes between arrays (64 KiB); with 0, arrays of 64 Mi parameters lie 256 MiB apart.
// PEER is a shared library with peer_adamw as below; bench/compare_cpu_adam.py makes one.
#include "kernels/peak/peak.h"
#include "kernels/update/update.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"

#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace {

using namespace trainyard;
using base::View;
using std::int64_t;

// One step of AdamW with the settings of `hyper` below. Not zero: it failed.
using PeerAdamw = int (*)(float* p, float* gradient, float* m, float* v, int64_t n, int64_t step);

constexpr int64_t stretch = int64_t{1} << 21;  // 56 MiB of p, gradient, m and v

struct Arrays {
  tensor::Arena memory;
  float *p, *gradient, *m, *v, *other;
  std::uint16_t *working, *low;
  std::uint8_t* marks;

  Arrays(int64_t n, int64_t gap) : memory(tensor::Category::optimizer, n * 25 + 8 * gap) {
    for (float** x : {&p, &gradient, &m, &v, &other})
      *x = memory.allocate(base::DType::f32, {n + gap / 4}).ptr<float>();
    for (std::uint16_t** x : {&working, &low}) *x = static_cast<std::uint16_t*>(memory.allocate_bytes(2 * n));
    marks = static_cast<std::uint8_t*>(memory.allocate_bytes(n / 8));
  }
};

void fill(const Arrays& a, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(i % 1021 - 510);
    a.p[i] = a.other[i] = 1e-3f * x;
    a.gradient[i] = 1e-4f * static_cast<float>(i % 509 - 254);
    a.m[i] = 1e-5f * x, a.v[i] = 1e-8f * (1 + x * x);
    a.working[i] = a.low[i] = 0;
    a.marks[i / 8] = 0;
  }
}

struct Contender {
  const char* name;
  double bytes;                            // of a parameter: read and written once
  std::function<void(int64_t first)> run;  // on [first, first + stretch)
  std::vector<double> seconds = {};        // of each stretch in each round, round by round

  // Bytes a second if each stretch took its least time of all rounds.
  double best_rate(int64_t stretches) const {
    double sum = 0;
    for (int64_t s = 0; s < stretches; ++s) {
      double least = 1e300;
      for (auto at = s; at < std::ssize(seconds); at += stretches) least = std::min(least, base::at(seconds, at));
      sum += least;
    }
    return bytes * static_cast<double>(stretch * stretches) / sum;
  }
  double middle_rate() const {
    auto sorted = seconds;
    const auto middle = sorted.begin() + std::ssize(sorted) / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    return bytes * static_cast<double>(stretch) / *middle;
  }
};

kernels::AdamW hyper(int64_t step) {
  kernels::AdamW h;
  h.learning_rate = 1e-3f, h.weight_decay = 0.01f;
  h.bias1 = 1 - std::pow(0.9, static_cast<double>(step)), h.bias2 = 1 - std::pow(0.999, static_cast<double>(step));
  return h;
}

enum class Parameter { f32, with_bf16_copy, as_remainder };

void update(tensor::Exec& exec, const Arrays& a, int64_t first, int64_t n, Parameter kind) {
  kernels::Update u{.rule = hyper(100),
                    .gradient = View::of(a.gradient + first, {n}),
                    .states = {View::of(a.m + first, {n}), View::of(a.v + first, {n})}};
  if (kind != Parameter::as_remainder) u.parameter = View::of(a.p + first, {n});
  if (kind != Parameter::f32) u.working = View(a.working + first, base::DType::bf16, {n});
  if (kind == Parameter::as_remainder)
    u.remainder = {View::of(a.low + first, {n}), View::of(a.marks + first / 8, {n / 8})};
  kernels::update(exec, u);
}

// The memory traffic of AdamW, with as little arithmetic as there can be.
void triad(const Arrays& a, int64_t first, int threads) {
  float *p = a.p + first, *m = a.m + first, *v = a.v + first;
  const float* g = a.gradient + first;
#pragma omp parallel for simd num_threads(threads) schedule(static)
  for (int64_t i = 0; i < stretch; ++i) {
    m[i] += 1e-6f * g[i];
    v[i] += 1e-9f * g[i];
    p[i] += 1e-6f * g[i];
  }
}

void plain_copy(const Arrays& a, int64_t first, int threads) {
#pragma omp parallel num_threads(threads)
  {
    const int64_t share = stretch / threads, at = share * omp_get_thread_num();
    const auto n = omp_get_thread_num() + 1 == threads ? stretch - at : share;
    std::memcpy(a.other + first + at, a.gradient + first + at, base::size(n) * sizeof(float));
  }
}

PeerAdamw peer_of(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw base::InputError(dlerror());
  const auto found = reinterpret_cast<PeerAdamw>(dlsym(library, "peer_adamw"));
  if (found == nullptr) throw base::InputError(fmt::format("{} has no peer_adamw", path));
  return found;
}

// Both make the same step, but for rounding.
void require_same_step(tensor::Exec& exec, const Arrays& a, PeerAdamw peer) {
  constexpr int64_t n = 4096;
  std::vector<float> p(a.p, a.p + n), m(a.m, a.m + n), v(a.v, a.v + n);
  update(exec, a, 0, n, Parameter::f32);
  if (peer(p.data(), a.gradient, m.data(), v.data(), n, 100) != 0) throw base::EnvironmentError("the peer failed");
  for (int64_t i = 0; i < n; ++i) {
    const auto differ = [&](const char* what, float ours, float theirs, float size) {
      if (std::fabs(ours - theirs) <= 1e-5f * size) return;
      throw base::InputError(fmt::format("{} of element {}: ours {}, the peer's {}", what, i, ours, theirs));
    };
    differ("p", a.p[i], base::at(p, i), 1), differ("m", a.m[i], base::at(m, i), 1e-2f);
    differ("v", a.v[i], base::at(v, i), 1e-2f);
  }
}

void report(const std::vector<Contender>& contenders, int threads, int64_t stretches, int64_t rounds) {
  double best = 0, middle = 0;
  for (const auto& c : contenders)
    if (c.bytes == 8) best = std::max(best, c.best_rate(stretches)), middle = std::max(middle, c.middle_rate());
  std::printf("%lld parameters, %d threads, %lld rounds; of_copy: of the faster copy, reads and writes counted\n",
              static_cast<long long>(stretches * stretch), threads, static_cast<long long>(rounds));
  std::printf("%-28s %8s %10s %8s %12s %8s\n", "", "bytes", "best GB/s", "of_copy", "median GB/s", "of_copy");
  for (const auto& c : contenders)
    std::printf("%-28s %8.3f %10.2f %8.3f %12.2f %8.3f\n", c.name, c.bytes, 1e-9 * c.best_rate(stretches),
                c.best_rate(stretches) / best, 1e-9 * c.middle_rate(), c.middle_rate() / middle);
}

void report_ratio(const Contender& ours, const Contender& peer, int64_t stretches) {
  std::printf("%s over %s: best %.3f, median %.3f\n", ours.name, peer.name,
              ours.best_rate(stretches) / peer.best_rate(stretches), ours.middle_rate() / peer.middle_rate());
}

int64_t number(int argc, char** argv, int at, int64_t otherwise) {
  if (at >= argc) return otherwise;
  const auto n = std::atoll(argv[at]);
  if (n < 0 || (n == 0 && at < 4)) throw base::UsageError(fmt::format("'{}' is no count", argv[at]));
  return n;
}

int run(int argc, char** argv) {
  if (argc < 2 || argc > 6)
    throw base::UsageError("usage: bench_host_update THREADS [PARAMETERS [ROUNDS [GAP [PEER]]]]");
  const auto threads = static_cast<int>(number(argc, argv, 1, 1));
  const int64_t stretches = (number(argc, argv, 2, int64_t{64} << 20) + stretch - 1) / stretch;
  const int64_t rounds = number(argc, argv, 3, 9);
  const int64_t gap = (number(argc, argv, 4, 65536) + 63) / 64 * 64;
  const PeerAdamw peer = argc > 5 ? peer_of(argv[5]) : nullptr;
  omp_set_num_threads(threads);
  const Arrays a(stretches * stretch, gap);
  fill(a, stretches * stretch);
  const auto exec = tensor::Exec::caller(nullptr, threads);
  if (peer != nullptr) require_same_step(*exec, a, peer);

  std::vector<Contender> contenders{
      {"copy, around the caches", 8,
       [&](int64_t at) {
         kernels::stream_copy(*exec, View::of(a.gradient + at, {stretch}), View::of(a.other + at, {stretch}));
       }},
      {"copy by memcpy", 8, [&](int64_t at) { plain_copy(a, at, threads); }},
      {"triad of 4 reads, 3 writes", 28, [&](int64_t at) { triad(a, at, threads); }},
      {"AdamW", 28, [&](int64_t at) { update(*exec, a, at, stretch, Parameter::f32); }},
      {"AdamW, a copy in bf16", 30, [&](int64_t at) { update(*exec, a, at, stretch, Parameter::with_bf16_copy); }},
      {"AdamW, bf16 and remainder", 28.125,
       [&](int64_t at) { update(*exec, a, at, stretch, Parameter::as_remainder); }}};
  constexpr int64_t ours = 3;
  if (peer != nullptr)
    contenders.push_back({"the peer's AdamW", 28, [&](int64_t at) {
                            if (peer(a.p + at, a.gradient + at, a.m + at, a.v + at, stretch, 100) != 0)
                              throw base::EnvironmentError("the peer failed");
                          }});
  // Contenders work on stretches that lie far apart.
  const int64_t shift = std::max<int64_t>(1, stretches / std::ssize(contenders));
  for (int64_t turn = 0; turn < rounds * stretches; ++turn) {
    for (int64_t c = 0; c < std::ssize(contenders); ++c) {
      auto& contender = base::at(contenders, c);
      const double begin = base::steady_seconds();
      contender.run((turn + c * shift) % stretches * stretch);
      contender.seconds.push_back(base::steady_seconds() - begin);
    }
  }
  report(contenders, threads, stretches, rounds);
  if (peer != nullptr) report_ratio(base::at(contenders, ours), contenders.back(), stretches);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const trainyard::base::Error& e) {
    std::fprintf(stderr, "bench_host_update: %s\n  try: %s\n", e.what(), e.hint().c_str());
    return static_cast<int>(e.code());
  }
}
