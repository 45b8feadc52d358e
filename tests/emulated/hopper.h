// Hopper's asynchronous instructions on the emulator, each done as late or as early as allowed. Products are done when
// somebody waits for them; boxes and words at once, or when somebody waits for them. Until then boxes and words hold
// NaN. A waiting thread pauses for a random time. Included by kernels/gpu_hopper.h where the compiler is not nvcc.
#pragma once

#include "tests/emulated/emulator.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#define __grid_constant__

// TRAINYARD_EMULATED_CAPABILITY=9.0: the emulated device has these instructions.
inline bool emulated_is_hopper() {
  const char* capability = std::getenv("TRAINYARD_EMULATED_CAPABILITY");
  return capability != nullptr && std::strcmp(capability, "9.0") == 0;
}

struct EmulatedTensorMap {  // of bf16; sizes and box begin with the channels
  const char* data;
  std::array<std::uint64_t, 3> sizes;
  std::array<std::uint64_t, 2> strides;  // bytes
  std::array<std::uint32_t, 2> box;
};
// Returns false where the driver refuses.
inline bool emulated_map_of(EmulatedTensorMap& map, const void* data, std::array<std::uint64_t, 3> sizes,
                            std::array<std::uint64_t, 2> strides, int rows) {
  map = {static_cast<const char*>(data), sizes, strides, {64, static_cast<std::uint32_t>(rows)}};
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && strides[0] % 16 == 0 && strides[1] % 16 == 0 &&
         rows <= 256;
}

namespace emulator {

[[noreturn]] inline void refuse(const char* what) {
  std::fprintf(stderr, "emulated Hopper: %s (block %u, thread %u)\n", what, block_index.x, thread_index.x);
  std::abort();
}

// The instructions of a block of threads that are under way.
class Hopper : public Block::State {
 public:
  static Hopper& of_block() {
    auto& state = Block::current_block->state;
    if (!state) state = std::make_unique<Hopper>();
    return static_cast<Hopper&>(*state);
  }
  void end() override {
    for (const auto& t : threads_)
      if (!t.open.empty() || !t.groups.empty()) refuse("products nobody waited for");
    if (!boxes_.empty() || !words_.empty()) refuse("boxes or words nobody waited for");
    for (const auto& t : threads_)
      if (!t.words.empty()) refuse("words without a barrier");
    for (const auto& g : gates_)
      if (g.come != 0) refuse("a barrier of some threads for which others have not come");
  }

  // Shared memory begins at an address that is not a multiple of 1024.
  static constexpr std::uint32_t first_byte = 48;
  std::uint32_t address_of(const void* memory) {
    memory_ = static_cast<char*>(const_cast<void*>(memory));
    return first_byte;
  }

  void product(float* d, int n, const unsigned* a, std::uint64_t a_rows, std::uint64_t b, bool accumulate) {
    mine().open.push_back({d, n, a, a_rows, b, accumulate});
  }
  void commit_products() {
    auto& t = mine();
    t.groups.push_back(std::move(t.open));
    t.open.clear();
    const unsigned warp = Block::current_block->thread() / 32;  // the threads of a warp multiply together
    if (((++t.committed * 2654435761u + warp * 40503u) >> 12) % 4 == 0) finish_products(0);
  }
  void wait_products(int open) {
    pause();
    finish_products(open);
    __syncwarp();
  }

  void set_barrier(std::uint32_t at, int arrivals) {
    if (at % 8 != 0) refuse("a barrier at no multiple of 8");
    barriers_[at] = {arrivals, arrivals, 0, 0};
  }
  void arrive(std::uint32_t at, int bytes) {
    auto& b = barrier(at);
    --b.missing, b.bytes += bytes;
    b.settle();
  }
  void await(std::uint32_t at, std::uint32_t parity) {
    pause();
    auto& b = barrier(at);
    Block::current_block->give_way_until([&] {
      if (b.phase == parity) deliver(at), deliver_words(at);
      return b.phase != parity;
    });
  }

  void copy_box(std::uint32_t to, const EmulatedTensorMap& map, std::uint32_t at, int channel, int row, int sequence) {
    const Box box{to, map, at, channel, row, sequence};
    if (to % 1024 != 0) refuse("a box at no multiple of 1024");
    std::memset(byte(to, box.bytes()), 0xff, box.bytes());
    boxes_.push_back(box);
    if (draw() % 2 == 0) deliver(at);
  }

  void copy_4(std::uint32_t to, const void* from, bool there) {
    if (to % 4 != 0 || (there && reinterpret_cast<std::uintptr_t>(from) % 4 != 0)) refuse("a word at no multiple of 4");
    std::memset(byte(to, 4), 0xff, 4);
    mine().words.push_back({to, there ? from : nullptr});
  }
  void arrive_copied(std::uint32_t at) {
    words_.push_back({at, std::move(mine().words)});
    mine().words.clear();
    if (draw() % 2 == 0) deliver_words(at);
  }

  void arrive_at(int number, int threads) {
    auto& g = gates_.at(static_cast<std::size_t>(number));
    if (++g.come == threads) g.come = 0, ++g.phase;
  }
  void meet_at(int number, int threads) {
    const auto& g = gates_.at(static_cast<std::size_t>(number));
    const auto phase = g.phase;
    arrive_at(number, threads);
    Block::current_block->give_way_until([&] { return g.phase != phase; });
  }

 private:
  struct Product {
    float* d;
    int n;
    const unsigned* a;  // registers; nullptr: shared memory, a_rows
    std::uint64_t a_rows, b;
    bool accumulate;
  };
  struct Word {
    std::uint32_t to;
    const void* from;  // nullptr: zeros
  };
  struct Words {  // of a thread
    std::uint32_t barrier;
    std::vector<Word> all;
  };
  struct Thread {
    std::vector<Word> words;
    std::vector<Product> open;
    std::vector<std::vector<Product>> groups;
    unsigned committed = 0;
  };
  struct Barrier {
    int arrivals = 0, missing = 0;
    std::int64_t bytes = 0;
    std::uint32_t phase = 0;
    void settle() {
      if (missing < 0) refuse("too many arrivals at a barrier");
      if (missing == 0 && bytes == 0) missing = arrivals, phase ^= 1;
    }
  };
  struct Box {
    std::uint32_t to;
    EmulatedTensorMap map;
    std::uint32_t barrier;
    int channel, row, sequence;
    std::uint32_t bytes() const { return map.box[0] * map.box[1] * 2; }
  };
  struct Gate {
    int come = 0;
    unsigned phase = 0;
  };

  static unsigned draw() {
    static thread_local std::uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return static_cast<unsigned>(x >> 20);
  }
  // Lets other threads run.
  static void pause() {
    for (unsigned turns = draw() % 8 == 0 ? draw() % 16 : draw() % 2; turns > 0; --turns)
      Block::current_block->give_way();
  }
  Thread& mine() { return threads_[Block::current_block->thread()]; }
  Barrier& barrier(std::uint32_t at) {
    const auto found = barriers_.find(at);
    if (found == barriers_.end()) refuse("no barrier is there");
    return found->second;
  }
  char* byte(std::uint32_t address, std::uint32_t bytes = 2) const {
    if (address < first_byte || address + bytes > first_byte + shared_bytes) refuse("beyond shared memory");
    return memory_ + (address - first_byte);
  }
  // The 128-byte swizzle.
  static std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 7 & 7) << 4; }
  float element(std::uint32_t address) const {
    std::uint16_t bits;
    std::memcpy(&bits, byte(swizzled(address)), 2);
    return widened(bits);
  }
  static float widened(unsigned bits) {
    bits <<= 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }

  void deliver(std::uint32_t at) {
    std::vector<Box> now, later;
    for (const auto& b : boxes_) (b.barrier == at ? now : later).push_back(b);
    boxes_ = std::move(later);
    for (const auto& b : now) {
      for (std::uint32_t r = 0; r < b.map.box[1]; ++r)
        for (std::uint32_t c = 0; c < b.map.box[0]; ++c) put(b, r, c);
      barrier(at).bytes -= b.bytes();
      barrier(at).settle();
    }
  }
  void deliver_words(std::uint32_t at) {
    std::vector<Words> now, later;
    for (auto& w : words_) (w.barrier == at ? now : later).push_back(std::move(w));
    words_ = std::move(later);
    for (const auto& w : now) {
      for (const auto& word : w.all) {
        if (word.from != nullptr) std::memcpy(byte(word.to, 4), word.from, 4);
        else std::memset(byte(word.to, 4), 0, 4);
      }
      arrive(at, 0);
    }
  }
  void put(const Box& b, std::uint32_t r, std::uint32_t c) const {
    const std::uint64_t x = static_cast<std::uint64_t>(b.channel) + c, y = static_cast<std::uint64_t>(b.row) + r,
                        z = static_cast<std::uint64_t>(b.sequence);
    std::uint16_t bits = 0;
    if (x < b.map.sizes[0] && y < b.map.sizes[1] && z < b.map.sizes[2])
      std::memcpy(&bits, b.map.data + z * b.map.strides[1] + y * b.map.strides[0] + x * 2, 2);
    std::memcpy(byte(swizzled(b.to + r * 128 + c * 2)), &bits, 2);
  }

  struct Descriptor {  // of an operand in shared memory
    std::uint32_t start, leading, stride;
    explicit Descriptor(std::uint64_t d) : start(field(d)), leading(field(d >> 16)), stride(field(d >> 32)) {
      if (d >> 62 != 1) refuse("not the 128-byte swizzle");
    }
    static std::uint32_t field(std::uint64_t d) { return static_cast<std::uint32_t>(d & 0x3fff) << 4; }
    std::uint32_t of_rows(int row, int k) const {
      return start + static_cast<std::uint32_t>(row / 8) * stride + static_cast<std::uint32_t>(row % 8 * 128 + k * 2);
    }
    std::uint32_t of_columns(int k, int n) const {
      return start + static_cast<std::uint32_t>(n / 64) * leading + static_cast<std::uint32_t>(k / 8) * stride +
             static_cast<std::uint32_t>(k % 8 * 128 + n % 64 * 2);
    }
  };

  void finish_products(int open) {
    auto& groups = mine().groups;
    while (static_cast<int>(groups.size()) > open) {
      const auto group = std::move(groups.front());
      groups.erase(groups.begin());
      for (const auto& p : group) multiply(p);
    }
  }
  // Computes this thread's part. Registers of `a` come from the threads of its warp.
  void multiply(const Product& p) {
    const int thread = static_cast<int>(Block::current_block->thread()), warp = thread / 32 % 4, g = thread % 32 / 4,
              t = thread % 4;
    float a[2][16];
    if (p.a == nullptr) {
      const Descriptor d(p.a_rows);
      for (int h = 0; h < 2; ++h)
        for (int k = 0; k < 16; ++k) a[h][k] = element(d.of_rows(16 * warp + g + 8 * h, k));
    } else {
      for (int r = 0; r < 4; ++r)
        for (int from = 0; from < 4; ++from) {
          const unsigned pair = emulated_exchange(p.a[r], static_cast<unsigned>(4 * g + from));
          a[r % 2][r / 2 * 8 + 2 * from] = widened(pair & 0xffffu);
          a[r % 2][r / 2 * 8 + 2 * from + 1] = widened(pair >> 16);
        }
    }
    const Descriptor d(p.b);
    const int columns = p.n / 4;  // of this thread
    float b[16][32], sum[2][32];
    for (int c = 0; c < columns; c += 2) {
      const int n = 4 * c + 2 * t;
      std::uint16_t x[8];
      for (int k = 0; k < 16 && p.a != nullptr; ++k) {
        std::memcpy(x, byte(swizzled(d.of_columns(k, n)), 4), 4);
        b[k][c] = widened(x[0]), b[k][c + 1] = widened(x[1]);
      }
      for (int k = 0; k < 16 && p.a == nullptr; k += 8)
        for (int e = 0; e < 2; ++e) {
          std::memcpy(x, byte(swizzled(d.of_rows(n + e, k)), 16), 16);
          for (int i = 0; i < 8; ++i) b[k + i][c + e] = widened(x[i]);
        }
    }
    const auto at = [](int h, int c) { return c / 2 * 4 + 2 * h + c % 2; };  // of rows g and g + 8
    for (int h = 0; h < 2; ++h) {
      for (int c = 0; c < columns; ++c) sum[h][c] = p.accumulate ? p.d[at(h, c)] : 0;
      for (int k = 0; k < 16; ++k)
        for (int c = 0; c < columns; ++c) sum[h][c] += a[h][k] * b[k][c];
      for (int c = 0; c < columns; ++c) p.d[at(h, c)] = sum[h][c];
    }
  }

  char* memory_ = nullptr;
  std::array<Thread, 1024> threads_;
  std::map<std::uint32_t, Barrier> barriers_;
  std::vector<Box> boxes_;
  std::vector<Words> words_;
  std::array<Gate, 16> gates_;
};

}  // namespace emulator

inline std::uint32_t emulated_shared_address(const void* memory) {
  return emulator::Hopper::of_block().address_of(memory);
}
inline void emulated_product(float* d, int n, const unsigned* a, std::uint64_t a_rows, std::uint64_t b,
                             bool accumulate) {
  emulator::Hopper::of_block().product(d, n, a, a_rows, b, accumulate);
}
inline void emulated_commit_products() { emulator::Hopper::of_block().commit_products(); }
inline void emulated_wait_products(int open) { emulator::Hopper::of_block().wait_products(open); }
inline void emulated_set_barrier(std::uint32_t at, int arrivals) {
  emulator::Hopper::of_block().set_barrier(at, arrivals);
}
inline void emulated_arrive(std::uint32_t at, int bytes) { emulator::Hopper::of_block().arrive(at, bytes); }
inline void emulated_await(std::uint32_t at, std::uint32_t parity) { emulator::Hopper::of_block().await(at, parity); }
inline void emulated_copy_box(std::uint32_t to, const EmulatedTensorMap& map, std::uint32_t at, int channel, int row,
                              int sequence) {
  emulator::Hopper::of_block().copy_box(to, map, at, channel, row, sequence);
}
inline void emulated_copy_4(std::uint32_t to, const void* from, bool there) {
  emulator::Hopper::of_block().copy_4(to, from, there);
}
inline void emulated_arrive_copied(std::uint32_t barrier) { emulator::Hopper::of_block().arrive_copied(barrier); }
inline void emulated_meet_at(int barrier, int threads) { emulator::Hopper::of_block().meet_at(barrier, threads); }
inline void emulated_arrive_at(int barrier, int threads) { emulator::Hopper::of_block().arrive_at(barrier, threads); }
