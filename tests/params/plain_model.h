// PlainModel: weights, summed gradients and optimizer states of a whole model in plain vectors on one rank. The stores
// must hold the same, whatever the layout.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/plan/blocks/inventory.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trainyard::test {

using Floats = std::vector<float>;

// Integers have the same sum in any order. The last bits of a sum of scattered values show the order of additions.
enum class Values { integers, scattered };

inline float value(Values kind, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d, std::int64_t i) {
  auto h = static_cast<std::uint32_t>((((a * 31 + b) * 31 + c) * 31 + d) * 7919 + i + 1) * 2654435761u;
  h = (h ^ (h >> 15)) * 2246822519u;
  h ^= h >> 13;
  if (kind == Values::integers) return static_cast<float>(static_cast<int>(h % 17) - 8);
  return std::ldexp(static_cast<float>(h >> 8) - 8388608.0f, static_cast<int>(h % 9) - 24);
}

// bf16 by rounding to nearest, ties to even.
inline std::uint16_t bf16_bits(float f) {
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// What is left of f32 values in bf16. Finite ones may become infinite.
inline Floats rounded_to_bf16(Floats values) {
  for (float& f : values) {
    const auto u = static_cast<std::uint32_t>(bf16_bits(f)) << 16;
    std::memcpy(&f, &u, 4);
  }
  return values;
}

// Where the bits of `got` first differ from elements `first`, first + 1, ... of `want`; empty if they do not differ.
// Narrow dtypes are compared with the rounded `want`.
inline std::string difference(base::View got, const Floats& want, std::int64_t first = 0) {
  if (first + got.count() > static_cast<std::int64_t>(want.size()))
    return fmt::format("{} elements from {} of {}", got.count(), first, want.size());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const float w = want[static_cast<std::size_t>(first + i)];
    if (got.dtype == base::DType::f16) {
      std::uint16_t bits;
      std::memcpy(&bits, static_cast<const char*>(got.data) + 2 * i, 2);
      if (bits != base::f16(w).bits) return fmt::format("element {}: f16 {:#06x} for {}", first + i, bits, w);
    } else if (got.dtype == base::DType::bf16) {
      std::uint16_t bits;
      std::memcpy(&bits, static_cast<const char*>(got.data) + 2 * i, 2);
      if (bits != bf16_bits(w)) return fmt::format("element {}: bf16 {:#06x} for {}", first + i, bits, w);
    } else if (std::memcmp(got.ptr<float>() + i, &w, 4) != 0) {
      return fmt::format("element {}: {:.9g} for {:.9g}", first + i, got.ptr<float>()[i], w);
    }
  }
  return "";
}

inline void fill(base::View view, const Floats& from, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < view.count(); ++i) view.ptr<float>()[i] = from[static_cast<std::size_t>(first + i)];
}

struct PlainFlatGroup {
  std::vector<std::int64_t> offsets;  // of the parameters, by decision 11
  std::int64_t padded = 0;
  std::vector<char> live, decays;  // elements of a logical parameter; elements with weight decay
  Floats weight, m, v;
};

// AdamW's numbers, independent of the library.
struct PlainAdamW {
  float rate, beta1, beta2, epsilon, decay, scale;
  double bias1, bias2;
};

class PlainModel {
 public:
  PlainModel(const std::vector<plan::FlatGroup>& described, const std::vector<plan::Occurrence>& order, int shards)
      : occurrences(order) {
    for (const auto& flat_group : described) {
      PlainFlatGroup u;
      std::int64_t end = 0;
      for (const auto& p : flat_group.parameters) {
        u.offsets.push_back((end + 15) / 16 * 16);
        std::int64_t logical = 1, stored = 1;
        for (auto n : p.shape) logical *= n;
        for (auto n : p.stored) stored *= n;
        end = u.offsets.back() + stored;
        u.live.resize(static_cast<std::size_t>(end)), u.decays.resize(u.live.size());
        for (std::int64_t i = 0; i < logical; ++i) u.live[static_cast<std::size_t>(u.offsets.back() + i)] = 1;
        for (std::int64_t i = 0; p.decay && i < stored; ++i)
          u.decays[static_cast<std::size_t>(u.offsets.back() + i)] = 1;
      }
      const std::int64_t grain = 64 * shards;
      u.padded = (end + grain - 1) / grain * grain;
      const auto n = static_cast<std::size_t>(u.padded);
      u.live.resize(n), u.decays.resize(n), u.weight.resize(n), u.m.resize(n), u.v.resize(n);
      flat_groups.push_back(std::move(u));
    }
  }
  const PlainFlatGroup& flat_group(int u) const { return flat_groups[static_cast<std::size_t>(u)]; }

  // Fills weights and moments with scattered values, as if trained, and zeros where no parameter is.
  void scatter(std::int64_t seed) {
    for (std::size_t u = 0; u < flat_groups.size(); ++u)
      for (std::size_t i = 0; i < flat_groups[u].live.size(); ++i) {
        if (!flat_groups[u].live[i]) continue;
        const auto at = [&](std::int64_t what) {
          return value(Values::scattered, seed, what, static_cast<std::int64_t>(u), 0, static_cast<std::int64_t>(i));
        };
        flat_groups[u].weight[i] = at(1), flat_groups[u].m[i] = at(2), flat_groups[u].v[i] = std::abs(at(3));
      }
  }

  // The gradient of one micro-batch for one occurrence of a flat group.
  Floats gradient(Values kind, std::int64_t step, std::int64_t micro, plan::Occurrence occurrence) const {
    const auto& u = flat_group(occurrence.flat_group);
    Floats out(u.live.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      if (u.live[i])
        out[i] = value(kind, step, micro, occurrence.flat_group, occurrence.index, static_cast<std::int64_t>(i));
    return out;
  }

  // Decision 1: micro-batches are added from left to right in groups of `local_accumulation`, then the groups from left
  // to right. Later occurrences are then added to the first one (decision 4).
  std::vector<Floats> reduced(Values kind, std::int64_t step, std::int64_t micros,
                              std::int64_t local_accumulation) const {
    std::vector<Floats> out(flat_groups.size());
    for (const auto& occurrence : occurrences) {
      Floats sum;
      for (std::int64_t group = 0; group * local_accumulation < micros; ++group) {
        Floats local;
        for (std::int64_t m = group * local_accumulation; m < std::min(micros, (group + 1) * local_accumulation); ++m)
          add(local, gradient(kind, step, m, occurrence));
        add(sum, local);
      }
      add(out[static_cast<std::size_t>(occurrence.flat_group)], sum);
    }
    return out;
  }

  // The same, rounded where sums are (decision 34).
  std::vector<Floats> reduced(Values kind, std::int64_t step, std::int64_t micros, std::int64_t local_accumulation,
                              base::DType sums) const {
    auto out = reduced(kind, step, micros, local_accumulation);
    for (auto& sum : out)
      if (sums == base::DType::bf16) sum = rounded_to_bf16(std::move(sum));
    return out;
  }

  void update(const std::vector<Floats>& gradients, const PlainAdamW& h) {
    const float s1 = 1 - h.beta1, s2 = 1 - h.beta2, c1 = static_cast<float>(1 / h.bias1),
                c2 = static_cast<float>(1 / h.bias2);
    for (std::size_t u = 0; u < flat_groups.size(); ++u)
      for (std::size_t i = 0; i < flat_groups[u].weight.size(); ++i) {
        float &p = flat_groups[u].weight[i], &m = flat_groups[u].m[i], &v = flat_groups[u].v[i];
        const float g = gradients[u][i] * h.scale;
        const float old = h.beta1 * m, fresh = s1 * g;
        m = old + fresh;
        const float square = g * g, older = h.beta2 * v, fresher = s2 * square;
        v = older + fresher;
        const float corrected = v * c2, root = std::sqrt(corrected), d = root + h.epsilon;
        const float mean = m * c1, quotient = mean / d, decay = (flat_groups[u].decays[i] ? h.decay : 0.0f) * p,
                    change = quotient + decay;
        const float moved = h.rate * change;
        p = p - moved;
      }
  }

  std::vector<PlainFlatGroup> flat_groups;
  std::vector<plan::Occurrence> occurrences;

 private:
  static void add(Floats& sum, const Floats& next) {
    if (sum.empty()) sum = next;
    else
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + next[i];
  }
};

// The dimension of a parameter that tensor-parallel ranks divide, by decision 11: outputs; inputs where the product is
// a sum that goes to the residual stream; rows of vocabulary tables. -1: every rank holds it whole.
inline int shared_dim(const std::string& name) {
  for (const char* end : {"attention.output.weight", "ffn.down.weight"})
    if (name.ends_with(end)) return 1;
  for (const char* within : {"attention.q.", "attention.k.", "attention.v.", "ffn.gate.", "ffn.up."})
    if (name.find(within) != std::string::npos) return 0;
  return name == "embedding.tokens.weight" || name == "head.weight" ? 0 : -1;
}

// The part of a plain model that one of `tensor` tensor-parallel ranks holds: its slices of the parameters, back to
// back.
class PlainPart {
 public:
  PlainPart(const std::vector<plan::FlatGroup>& described, const PlainModel& whole, int shards, int tensor, int part) {
    for (std::size_t u = 0; u < described.size(); ++u) {
      std::int64_t end = 0;
      auto& offsets = offsets_.emplace_back();
      auto& from = from_.emplace_back();
      for (std::size_t i = 0; i < described[u].parameters.size(); ++i) {
        const auto& p = described[u].parameters[i];
        const auto rows = p.stored[0], cols = p.stored.size() > 1 ? p.stored[1] : 1;
        const auto dim = shared_dim(p.name);
        const auto held_rows = dim == 0 ? rows / tensor : rows, held_cols = dim == 1 ? cols / tensor : cols;
        const auto first_row = dim == 0 ? part * held_rows : 0, first_col = dim == 1 ? part * held_cols : 0;
        offsets.push_back((end + 15) / 16 * 16);
        end = offsets.back() + held_rows * held_cols;
        from.resize(static_cast<std::size_t>(end), -1);
        for (std::int64_t r = 0; r < held_rows; ++r)
          for (std::int64_t c = 0; c < held_cols; ++c)
            from[static_cast<std::size_t>(offsets.back() + r * held_cols + c)] =
                whole.flat_groups[u].offsets[i] + (first_row + r) * cols + first_col + c;
      }
      const std::int64_t grain = 64 * shards;
      from.resize(static_cast<std::size_t>((end + grain - 1) / grain * grain), -1);
    }
  }
  std::int64_t offset(int flat_group, std::size_t parameter) const {
    return offsets_[static_cast<std::size_t>(flat_group)][parameter];
  }
  // This rank's part of a flat group, with zeros in the gaps.
  Floats of(int flat_group, const Floats& whole) const {
    const auto& from = from_[static_cast<std::size_t>(flat_group)];
    Floats out(from.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      if (from[i] >= 0) out[i] = whole[static_cast<std::size_t>(from[i])];
    return out;
  }

 private:
  std::vector<std::vector<std::int64_t>> offsets_,
      from_;  // of each flat group: by parameter, and by element
};

}  // namespace trainyard::test
