// CUDA's execution model on the host. The threads of a block are fibers of one host thread that meet at barriers;
// blocks run one after the other. Included by kernels/gpu_device.h where the compiler is not nvcc.
#pragma once

#include "tests/emulated/fiber.h"
#include "tests/emulated/stream.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  dim3(std::int64_t a, std::int64_t b = 1, std::int64_t c = 1)
      : x(static_cast<unsigned>(a)), y(static_cast<unsigned>(b)), z(static_cast<unsigned>(c)) {}
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace emulator {

inline constexpr int shared_bytes = 227 << 10;  // the limit of a block with compute capability 9.0

inline thread_local dim3 thread_index, block_index, block_size, grid_size;

// The fibers of one block. A fiber that waits lets the next one run. A barrier opens when every live fiber of its scope
// has arrived.
class Block {
 public:
  Block(unsigned threads, const std::function<void()>& body) : body_(body), fibers_(threads) {}

  void run() {
    current_block = this;
    static thread_local std::vector<char> stacks;  // used by all blocks of this host thread in turn
    if (stacks.size() < fibers_.size() * stack_bytes) stacks.resize(fibers_.size() * stack_bytes);
    for (std::size_t t = 0; t < fibers_.size(); ++t)
      fibers_[t].context.begin(stacks.data() + t * stack_bytes, stack_bytes, &Block::enter);
    for (unsigned t = runnable(0); t < fibers_.size(); t = runnable(0)) go_on(scheduler_, t);
    for (const auto& f : fibers_)
      if (!f.done) std::abort();  // threads of a block wait for different barriers
    if (state) state->end();
    current_block = nullptr;
  }

  void give_way() { leave(fibers_[current_].context); }
  void give_way_until(const std::function<bool()>& ready) {  // `ready` is called repeatedly
    fibers_[current_].ready = &ready;
    give_way();
  }
  // Waits until all live threads of [first, first + count) have arrived as often as this thread.
  void meet(unsigned first, unsigned count) {
    auto& f = fibers_[current_];
    f.first = first, f.count = count;
    auto& arrivals = count == 32 ? f.warp_arrivals : f.block_arrivals;
    f.waiting_for = ++arrivals;
    f.warp = count == 32;
    give_way();
  }
  unsigned thread() const { return current_; }
  unsigned threads() const { return static_cast<unsigned>(fibers_.size()); }
  // Changes with each meeting of the current thread's warp. What is left in a slot before a meeting stays until all
  // have come to the next one.
  unsigned turn() const { return fibers_[current_].warp_arrivals % 2; }
  std::uint64_t* slots() { return slots_[turn()]; }
  bool* votes() { return votes_; }

  static inline thread_local Block* current_block = nullptr;

  struct State {  // of instructions that are emulated elsewhere (hopper.h)
    virtual ~State() = default;
    virtual void end() = 0;  // called at the end of the block
  };
  std::unique_ptr<State> state;

 private:
  static constexpr std::size_t stack_bytes = 32 << 10;
  struct Fiber {
    Context context;
    bool done = false, warp = false;
    unsigned first = 0, count = 0;
    const std::function<bool()>* ready = nullptr;
    std::uint64_t waiting_for = 0, warp_arrivals = 0, block_arrivals = 0;
  };
  TRAINYARD_NEVER_LEFT static void enter() {
    auto* block = current_block;
    block->body_();
    block->fibers_[block->current_].done = true;
    block->leave(block->fibers_[block->current_].context);
  }
  // The first fiber from `t` on that may run; their number if none may.
  unsigned runnable(unsigned t) {
    for (; t < fibers_.size(); ++t) {
      const auto& f = fibers_[t];
      if (!f.done && (f.waiting_for == 0 || is_open(f)) && (f.ready == nullptr || (*f.ready)())) break;
    }
    return t;
  }
  TRAINYARD_NEVER_LEFT void go_on(Context& from, unsigned t) {
    fibers_[t].waiting_for = 0, fibers_[t].ready = nullptr;
    current_ = t;
    thread_index = dim3(t);
    change(from, fibers_[t].context);
  }
  // To the next fiber; behind the last one to the scheduler, which begins with the first again.
  TRAINYARD_NEVER_LEFT void leave(Context& from) {
    const unsigned t = runnable(current_ + 1);
    if (t < fibers_.size()) go_on(from, t);
    else change(from, scheduler_);
  }
  bool is_open(const Fiber& f) {
    auto& open = f.warp ? warps_open_[f.first / 32] : block_open_;  // the last arrival that is known to be open
    if (open >= f.waiting_for) return true;
    for (unsigned t = f.first; t < f.first + f.count && t < fibers_.size(); ++t) {
      const auto& other = fibers_[t];
      if (!other.done && (f.warp ? other.warp_arrivals : other.block_arrivals) < f.waiting_for) return false;
    }
    open = f.waiting_for;
    return true;
  }
  const std::function<void()>& body_;
  std::vector<Fiber> fibers_;
  Context scheduler_;
  unsigned current_ = 0;
  std::uint64_t block_open_ = 0, warps_open_[32] = {};
  std::uint64_t slots_[2][1024] = {};
  bool votes_[1024] = {};
};

// Blocks in x, then y, then z. A kernel that never meets a barrier is run thread by thread without fibers.
inline void run_grid(dim3 grid, dim3 block, bool barriers, const std::function<void()>& call) {
  grid_size = grid, block_size = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index.x = x, block_index.y = y, block_index.z = z;
        if (barriers) {
          Block(block.x, call).run();
          continue;
        }
        for (unsigned t = 0; t < block.x; ++t) {
          thread_index = dim3(t);
          call();
        }
      }
}

template <class Body> void launch(void* stream, dim3 grid, dim3 block, bool barriers, const Body& body) {
  submit(stream, [=] { run_grid(grid, block, barriers, body); });
}

}  // namespace emulator

#define threadIdx emulator::thread_index
#define blockIdx emulator::block_index
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

inline void __syncthreads() { emulator::Block::current_block->meet(0, emulator::Block::current_block->threads()); }
inline void __syncwarp(unsigned = 0xffffffffu) {
  auto* b = emulator::Block::current_block;
  b->meet(b->thread() / 32 * 32, 32);
}

// Every lane writes its value, all lanes meet, each reads the value it wants.
template <class T> T emulated_exchange(T value, unsigned lane_wanted) {
  static_assert(sizeof(T) <= 8);
  auto* b = emulator::Block::current_block;
  const unsigned me = b->thread(), warp = me / 32 * 32;
  auto* slots = b->slots();
  std::memcpy(&slots[me], &value, sizeof value);
  b->meet(warp, 32);
  T out;
  std::memcpy(&out, &slots[warp + lane_wanted % 32], sizeof out);
  return out;
}
template <class T> T __shfl_xor_sync(unsigned, T value, int lanes) {
  return emulated_exchange(value, (emulator::Block::current_block->thread() % 32) ^ static_cast<unsigned>(lanes));
}
template <class T> T __shfl_sync(unsigned, T value, int lane) {
  return emulated_exchange(value, static_cast<unsigned>(lane));
}
inline int __syncthreads_or(int predicate) {
  auto* b = emulator::Block::current_block;
  b->votes()[b->thread()] = predicate != 0;
  __syncthreads();
  int any = 0;
  for (unsigned t = 0; t < b->threads(); ++t) any |= b->votes()[t];
  __syncthreads();
  return any;
}

// mma.m16n8k16 of bf16: every lane writes its registers, then adds up its four results in ascending k.
inline void emulated_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static thread_local unsigned both[2][32][32][6];  // turn, warp, lane, register
  auto& left = both[emulator::Block::current_block->turn()];
  const unsigned me = emulator::Block::current_block->thread(), warp = me / 32, lane = me % 32;
  for (int r = 0; r < 4; ++r) left[warp][lane][r] = a[r];
  left[warp][lane][4] = b0, left[warp][lane][5] = b1;
  __syncwarp();
  const auto half = [](unsigned pair, int which) {
    const unsigned bits = (which == 0 ? pair & 0xffffu : pair >> 16) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  };
  for (int e = 0; e < 4; ++e) {
    const int row = static_cast<int>(lane / 4) + e / 2 * 8, column = static_cast<int>(lane % 4) * 2 + e % 2;
    for (int k = 0; k < 16; ++k) {
      const float x = half(left[warp][row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2);
      const float y = half(left[warp][column * 4 + k % 8 / 2][4 + k / 8], k % 2);
      c[e] += x * y;
    }
  }
}

// ldmatrix.x4: every lane writes the address of its row, then reads its elements of four tiles.
template <class Half> void emulated_ldmatrix(unsigned (&r)[4], const Half* row, bool transposed) {
  auto* b = emulator::Block::current_block;
  const unsigned me = b->thread(), warp = me / 32 * 32, g = me % 32 / 4, t = me % 4;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) std::abort();
  const auto* slots = b->slots();
  b->slots()[me] = reinterpret_cast<std::uintptr_t>(row);
  __syncwarp();
  const auto element = [&](unsigned tile, unsigned i, unsigned j) {
    std::uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<const char*>(slots[warp + 8 * tile + i]) + 2 * j, 2);
    return static_cast<unsigned>(bits);
  };
  unsigned out[4];
  for (unsigned m = 0; m < 4; ++m)
    out[m] = transposed ? element(m, 2 * t, g) | element(m, 2 * t + 1, g) << 16
                        : element(m, g, 2 * t) | element(m, g, 2 * t + 1) << 16;
  __syncwarp();  // whoever goes on may write to the rows
  for (int m = 0; m < 4; ++m) r[m] = out[m];
}

// cp.async: copies as late as allowed, when the copy is awaited. Until then shared memory holds NaN.
struct EmulatedCopy {
  void* to;
  const void* from;
};
inline std::vector<EmulatedCopy>& emulated_copies() {
  static thread_local std::vector<EmulatedCopy> waiting[1024];
  return waiting[emulator::Block::current_block->thread()];
}
inline void emulated_copy_16(void* to, const void* from, bool there) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || (there && reinterpret_cast<std::uintptr_t>(from) % 16 != 0))
    std::abort();
  std::memset(to, 0xff, 16);
  emulated_copies().push_back({to, there ? from : nullptr});
}
inline void emulated_await_copies() {
  for (const auto& c : emulated_copies()) {
    if (c.from != nullptr) std::memcpy(c.to, c.from, 16);
    else std::memset(c.to, 0, 16);
  }
  emulated_copies().clear();
}

template <class T> T atomicAdd(T* to, T value) { return __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float rsqrt_of(float a) { return 1.0f / std::sqrt(a); }
inline unsigned __float_as_uint(float f) {
  unsigned u;
  std::memcpy(&u, &f, 4);
  return u;
}
inline float __uint_as_float(unsigned u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
