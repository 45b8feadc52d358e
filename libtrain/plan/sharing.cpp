// Divides what tensor ranks share.
#include "libtrain/plan/sharing.h"

#include "libtrain/plan/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

namespace {

struct Shared {
  std::string what;
  std::int64_t size;
};

// Layers are alike: the first speaks for all.
std::vector<Shared> shared_of(const ModelConfig& m) {
  std::vector<Shared> out{{"kv-heads", m.kv_heads}, {"ffn", m.ffn}, {"the stored vocabulary", m.stored_vocabulary()}};
  for (const auto& segment : segments(m))
    for (const auto& unit : segment.kind->units(m, 0))
      for (const auto& p : unit.parameters)
        if (p.cut && p.cut->axis == Axis::tensor)
          out.push_back(
              {fmt::format("dim {} of '{}'", p.cut->dim, p.name), p.stored[static_cast<std::size_t>(p.cut->dim)]});
  return out;
}

bool divides_all(const std::vector<Shared>& shared, std::int64_t tensor) {
  return std::all_of(shared.begin(), shared.end(), [&](const auto& s) { return s.size % tensor == 0; });
}

std::string nearest(const std::vector<Shared>& shared, std::int64_t tensor) {
  auto below = tensor - 1, above = tensor + 1;
  while (!divides_all(shared, below)) --below;  // 1 does
  const auto most = shared.front().size;        // more than there are key-value heads never do
  while (above <= most && !divides_all(shared, above)) ++above;
  return above > most ? fmt::format("--tensor {}", below) : fmt::format("--tensor {} or --tensor {}", below, above);
}

}  // namespace

std::optional<Problem> sharing_problem(const ModelConfig& m, int tensor) {
  if (tensor == 1) return std::nullopt;
  const auto shared = shared_of(m);
  if (tensor > m.kv_heads)
    return Problem{fmt::format("--tensor {} is more than the model's {} key-value heads: some ranks would have none",
                               tensor, m.kv_heads),
                   nearest(shared, m.kv_heads + 1)};
  for (const auto& s : shared)
    if (s.size % tensor != 0)
      return Problem{fmt::format("--tensor {} does not divide {} {}", tensor, s.what, s.size), nearest(shared, tensor)};
  return std::nullopt;
}

}  // namespace trainyard::plan
