// Arrays that lie 256 MiB apart are updated in groups of elements, with the bits of arrays that do not.
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <string>

namespace trainyard::test {
namespace crowded_update_test {

constexpr std::int64_t crowd_distance = std::int64_t{256} << 20, crowd_arrays = 5;

// Five arrays at a distance. Only the pages that are used have memory.
class ArraysApart {
 public:
  explicit ArraysApart(std::int64_t distance) : distance_(distance), bytes_(base::size(crowd_arrays * distance)) {
    void* all = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw base::EnvironmentError("no address space for arrays that lie apart");
    memory_ = static_cast<char*>(all);
  }
  ~ArraysApart() { munmap(memory_, bytes_); }
  ArraysApart(const ArraysApart&) = delete;
  ArraysApart& operator=(const ArraysApart&) = delete;
  base::View view(std::int64_t array, base::DType dtype, std::int64_t n) const {
    return {memory_ + array * distance_, dtype, {n}};
  }

 private:
  std::int64_t distance_;
  std::size_t bytes_;
  char* memory_;
};

enum class CrowdMaster { alone, with_copy, as_remainder };
struct CrowdCase {
  CrowdMaster master;
  base::DType states;
};

float crowd_value(std::int64_t array, std::int64_t i) {
  const auto x = static_cast<float>((i * 7919 + array * 104729) % 2003) / 2003;
  return array == 3 ? x : x - 0.5f;  // the second state is no less than 0
}

// Gradient, parameter or remainder, working copy and states after two updates, as bytes.
std::vector<std::string> updated_at_distance(std::int64_t distance, const kernels::UpdateRule& rule, std::size_t states,
                                             const CrowdCase& c) {
  constexpr std::int64_t n = 20011;
  const ArraysApart arrays(distance);
  Bench bench(2);
  const auto gradient = arrays.view(0, base::DType::f32, n);
  kernels::Update u{.rule = rule, .gradient = gradient};
  std::vector<float> master(n);
  std::vector<std::uint16_t> low(n);
  std::vector<std::uint8_t> marks(base::size(kernels::bytes_of_marks(n)));
  for (std::int64_t i = 0; i < n; ++i)
    gradient.ptr<float>()[i] = crowd_value(0, i), base::at(master, i) = crowd_value(1, i);
  if (c.master != CrowdMaster::alone) u.working = arrays.view(4, base::DType::bf16, n);
  if (c.master == CrowdMaster::as_remainder) {
    u.remainder = {base::View::of(low.data(), {n}), base::View::of(marks.data(), {std::ssize(marks)})};
    kernels::split_master(*bench, base::View::of(master.data(), {n}), u.working, u.remainder);
  } else {
    u.parameter = arrays.view(1, base::DType::f32, n);
    std::memcpy(u.parameter.data, master.data(), base::size(u.parameter.bytes()));
  }
  for (std::size_t s = 0; s < states; ++s) {
    const auto array = 2 + static_cast<std::int64_t>(s);
    u.states[s] = arrays.view(array, c.states, n);
    for (std::int64_t i = 0; i < n; ++i)
      if (c.states == base::DType::f32) u.states[s].ptr<float>()[i] = crowd_value(array, i);
      else u.states[s].ptr<base::bf16>()[i] = base::bf16(crowd_value(array, i));
  }
  for (int step = 0; step < 2; ++step) kernels::update(*bench, u);
  std::vector<std::string> out;
  const auto keep = [&](const void* data, std::int64_t bytes) {
    if (bytes > 0) out.emplace_back(static_cast<const char*>(data), base::size(bytes));
  };
  keep(gradient.data, gradient.bytes()), keep(u.parameter.data, u.parameter.bytes());
  keep(low.data(), 2 * n), keep(marks.data(), std::ssize(marks)), keep(u.working.data, u.working.bytes());
  for (const auto& state : u.states) keep(state.data, state.bytes());
  return out;
}

TEST(CrowdedUpdate, ArraysThatLie256MiBApartGetTheSameBits) {
  kernels::AdamW adamw;
  adamw.learning_rate = 1e-2f, adamw.weight_decay = 0.1f, adamw.bias1 = 0.3, adamw.bias2 = 0.02;
  kernels::Lion lion;
  lion.learning_rate = 1e-2f, lion.weight_decay = 0.1f;
  kernels::Muon muon;
  muon.learning_rate = 1e-2f, muon.weight_decay = 0.1f;
  const std::pair<kernels::UpdateRule, std::size_t> rules[] = {{adamw, 2}, {lion, 1}, {muon, 0}};
  on_every_path([&] {
    for (const auto master : {CrowdMaster::alone, CrowdMaster::with_copy, CrowdMaster::as_remainder})
      for (const auto states : {base::DType::f32, base::DType::bf16})
        for (const auto& [rule, count] : rules) {
          const CrowdCase c{master, states};
          const auto expected = updated_at_distance(crowd_distance / 2 + 12352, rule, count, c);
          for (const std::int64_t more : {0, 128, -192})
            EXPECT_TRUE(updated_at_distance(crowd_distance + more, rule, count, c) == expected)
                << count << " states of " << base::name_of(states) << ", master " << static_cast<int>(master) << ", "
                << more << " bytes more";
        }
  });
}

}  // namespace crowded_update_test
}  // namespace trainyard::test
