// Master weights whose rounding to bf16 is special, and their working copies and remainders.
#pragma once

#include "kernels/update/remainder.h"
#include "kernels/update/update.h"
#include "libtrain/base/dtype.h"

#include <bit>
#include <cstdint>
#include <vector>

namespace trainyard::test {

using Bits = std::vector<std::uint32_t>;

// The upper halves of f32 where something is special: zeros, subnormals, one, the largest numbers, infinities and NaNs,
// with both signs, and some others.
inline std::vector<std::uint32_t> special_upper_halves() {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t sign : {0u, 0x8000u}) {
    for (const std::uint32_t upper :
         {0x0000u, 0x0001u, 0x0002u, 0x0040u, 0x007fu, 0x0080u, 0x0081u, 0x3f7fu, 0x3f80u, 0x3f81u, 0x3fffu, 0x4000u,
          0x7f7eu, 0x7f7fu, 0x7f80u, 0x7f81u, 0x7f90u, 0x7fbfu, 0x7fc0u, 0x7fc1u, 0x7fd5u, 0x7ffeu, 0x7fffu})
      out.push_back(sign | upper);
    for (std::uint32_t i = 0; i < 40; ++i) out.push_back(sign | (0x1234u + i * 0x251u) % 0x7f80u);
  }
  return out;
}

// Masters with many ties, and numbers of every kind.
inline Bits masters(std::int64_t n, bool finite) {
  constexpr std::uint32_t lower[] = {0x8000, 0, 0x8000, 0x7fff, 0x8001, 0xffff, 1};
  const auto special = special_upper_halves();
  Bits out;
  std::uint64_t seed = 7;
  for (std::size_t i = 0; out.size() < static_cast<std::size_t>(n); ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const auto upper =
        i % 3 == 0 ? special[i / 3 % special.size()] : static_cast<std::uint32_t>(0x3e00 + (seed >> 40) % 0x200);
    if (finite && (upper & 0x7fffu) >= 0x7f00u) continue;
    out.push_back(upper << 16 | (i % 2 == 0 ? lower[i / 2 % 7] : static_cast<std::uint32_t>(seed >> 48)));
  }
  return out;
}

inline std::vector<float> floats(const Bits& bits) {
  std::vector<float> out;
  for (const auto b : bits) out.push_back(std::bit_cast<float>(b));
  return out;
}
inline Bits bits_of(const std::vector<float>& values) {
  Bits out;
  for (const auto v : values) out.push_back(std::bit_cast<std::uint32_t>(v));
  return out;
}

// Room for the split form of n masters from element `first`; whatever is not theirs has a pattern.
struct SplitWeights {
  std::vector<std::uint16_t> working, low;
  std::vector<std::uint8_t> marks;
  std::int64_t first, n;

  explicit SplitWeights(std::int64_t count, std::int64_t from = 0)
      : working(static_cast<std::size_t>(count), 0x5555), low(static_cast<std::size_t>(from + count + 9), 0x5555),
        marks(static_cast<std::size_t>(kernels::bytes_of_marks(from + count + 9)), 0x5a), first(from), n(count) {}

  base::View working_view() { return {working.data(), base::DType::bf16, {n}}; }
  kernels::Remainder remainder() {
    return {base::View::of(low.data(), {std::ssize(low)}), base::View::of(marks.data(), {std::ssize(marks)}), first};
  }
  bool mark(std::int64_t i) const {
    const auto bit = static_cast<std::size_t>(first + i);
    return (marks[bit / 8] >> bit % 8 & 1) != 0;
  }
  // What belongs to no element has its pattern.
  bool rest_is_untouched() const {
    for (std::int64_t i = 0; i < std::ssize(low); ++i) {
      if (i >= first && i < first + n) continue;
      const auto at = static_cast<std::size_t>(i);
      if (low[at] != 0x5555 || (marks[at / 8] >> at % 8 & 1) != (0x5a >> at % 8 & 1)) return false;
    }
    return true;
  }
};

// The rules of every optimizer that updates elements, and how many states each has.
struct RuleOfElements {
  kernels::UpdateRule rule;
  std::size_t states;
};
inline std::vector<RuleOfElements> rules_of_elements(const kernels::StepNumbers* numbers) {
  kernels::AdamW adamw, adam;
  adamw.bias1 = adam.bias1 = 0.3, adamw.bias2 = adam.bias2 = 0.02, adam.decay_in_gradient = true;
  kernels::Sgd sgd;
  sgd.nesterov = true;
  std::vector<RuleOfElements> all{{adamw, 2},           {adam, 2},           {kernels::Lion{}, 1}, {sgd, 1},
                                  {kernels::Muon{}, 0}, {kernels::Lamb{}, 2}};
  for (auto& of : all)
    std::visit(
        [&](kernels::UpdateStep& step) {
          step.learning_rate = 1e-2f, step.weight_decay = 0.1f, step.gradient_scale = 0.5f, step.numbers = numbers;
        },
        of.rule);
  return all;
}

}  // namespace trainyard::test
