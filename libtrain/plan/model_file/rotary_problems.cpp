// Checks how the angles of rotary positions are scaled.
#include "libtrain/plan/model_file/rotary_problems.h"

#include "libtrain/plan/model_file/model_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

struct ScalingKey {
  const char* key;
  std::vector<std::string> scalings;  // that read it
};
const std::vector<ScalingKey>& scaling_keys() {
  static const std::vector<ScalingKey> all = {{"rotary-factor", {"linear", "llama3", "yarn"}},
                                              {"rotary-low", {"llama3"}},
                                              {"rotary-high", {"llama3"}},
                                              {"rotary-original", {"llama3", "yarn"}},
                                              {"rotary-beta-fast", {"yarn"}},
                                              {"rotary-beta-slow", {"yarn"}},
                                              {"rotary-attention-factor", {"yarn"}}};
  return all;
}

void unread_scaling_keys(const ModelConfig& m, std::vector<std::string>& out) {
  auto copy = m;
  ModelConfig usual;
  const auto usual_fields = fields_of(usual);
  std::string scaling;
  for (std::size_t i = 0; const auto& f : fields_of(copy)) {
    const auto& other = usual_fields[i++];
    if (f.name == "rotary-scaling") scaling = f.get();
    if (f.get() == other.get()) continue;
    for (const auto& [key, scalings] : scaling_keys())
      if (f.name == key && std::find(scalings.begin(), scalings.end(), scaling) == scalings.end())
        out.push_back(fmt::format("{} is read by rotary-scaling {}, and it is {}: leave it out", f.name,
                                  fmt::join(scalings, ", "), scaling));
  }
}

void scaling_problems(const RotaryConfig& r, std::vector<std::string>& out) {
  if (r.scaling == RotaryScaling::none) return;
  if (r.factor <= 1) out.push_back(fmt::format("rotary-scaling needs a rotary-factor above 1, not {}", r.factor));
  if (r.scaling == RotaryScaling::linear) return;
  if (r.original == 0) out.emplace_back("this rotary-scaling needs rotary-original, the context before scaling");
  if (r.scaling == RotaryScaling::llama3 && r.low >= r.high)
    out.push_back(fmt::format("rotary-low {} is not below rotary-high {}", r.low, r.high));
  if (r.scaling == RotaryScaling::yarn && r.beta_slow >= r.beta_fast)
    out.push_back(fmt::format("rotary-beta-slow {} is not below rotary-beta-fast {}", r.beta_slow, r.beta_fast));
}

}  // namespace

std::vector<std::string> rotary_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  const auto& r = m.rotary;
  if (m.positions != Positions::rotary) {
    if (r != RotaryConfig()) out.emplace_back("positions are not rotary, but rotary keys are set: leave them out");
    return out;
  }
  unread_scaling_keys(m, out);
  scaling_problems(r, out);
  const auto head = m.head_dim(), channels = static_cast<std::int64_t>(static_cast<double>(head) * r.fraction);
  if (r.fraction == 1 && head % 2 != 0)
    out.push_back(fmt::format("rotary positions need an even head size, not {}", head));
  else if (channels < 2 || channels % 2 != 0)
    out.push_back(fmt::format("rotary-fraction {} of a head of {} is {} channels, and pairs of channels rotate",
                              r.fraction, head, channels));
  if (r.local_base == 0) return out;
  if (r.local_base < 1.001) out.push_back(fmt::format("rotary-local-base {} is below 1.001", r.local_base));
  const auto& windows = m.attention.window_tokens;
  if (std::none_of(windows.begin(), windows.end(), [](auto tokens) { return tokens > 0; }))
    out.emplace_back("rotary-local-base is for layers with a window of tokens, and no layer has one: leave it out");
  return out;
}

}  // namespace trainyard::plan
