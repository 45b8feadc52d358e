// Edit distance over short names.
#include "libtrain/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace trainyard::base {

namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The longest name that is compared: the distance costs the product of both lengths.
constexpr std::size_t longest = 64;

std::string plain_word(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, longest))
    out += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Values as torch, transformers and DeepSpeed write them, and our values.
struct Synonym {
  const char *theirs, *ours;
};
constexpr Synonym synonyms[] = {{"bfloat16", "bf16"},
                                {"bfloat", "bf16"},
                                {"fp16", "f16"},  // for settings that have f16
                                {"float16", "f16"},
                                {"half", "f16"},
                                {"fp16", "bf16"},
                                {"float16", "bf16"},
                                {"f16", "bf16"},
                                {"half", "bf16"},
                                {"mixed", "bf16"},
                                {"16", "bf16"},
                                {"fp32", "f32"},
                                {"float32", "f32"},
                                {"float", "f32"},
                                {"single", "f32"},
                                {"32", "f32"},
                                {"tf32", "f32"},
                                {"gpu", "cuda"},
                                {"nvidia", "cuda"},
                                {"cuda:0", "cuda"},
                                {"gloo", "mpi"},
                                {"true", "full"},
                                {"on", "full"},
                                {"true", "on"},
                                {"yes", "on"},
                                {"1", "on"},
                                {"false", "off"},
                                {"no", "off"},
                                {"0", "off"},
                                {"none", "off"},
                                {"false", "none"},
                                {"off", "none"},
                                {"true", "always"},
                                {"yes", "always"},
                                {"on", "always"},
                                {"false", "never"},
                                {"no", "never"},
                                {"off", "never"},
                                {"none", "never"},
                                {"cosine-with-restarts", "cosine-restarts"},
                                {"onecycle", "one-cycle"},
                                {"poly", "polynomial"},
                                {"constant-with-warmup", "constant"},
                                {"cosine-with-min-lr", "cosine"},
                                {"warmup-stable-decay", "wsd"},
                                {"polynomial-decay", "polynomial"},
                                {"inverse-square-root", "inverse-sqrt"},
                                {"adamw-bnb-8bit", "adamw"},
                                {"dist-muon", "muon"},
                                {"adamw-torch", "adamw"},
                                {"adamw-torch-fused", "adamw"},
                                {"adamw-hf", "adamw"},
                                {"lion-32bit", "lion"},
                                {"fusedlamb", "lamb"},
                                {"fused-lamb", "lamb"},
                                {"lamb-fp16", "lamb"},
                                {"layernorm", "layer"},
                                {"rmsnorm", "rms"},
                                {"rope", "rotary"},
                                {"absolute", "learned"},
                                {"gelu", "gelu-erf"},
                                {"exact-gelu", "gelu-erf"},
                                {"gelu-new", "gelu-tanh"},
                                {"silu", "swiglu"},
                                {"geglu", "geglu-tanh"},
                                {"gelu-pytorch-tanh", "gelu-tanh"},
                                {"squared-relu", "relu-squared"},
                                {"relu2", "relu-squared"},
                                {"gpt2-small", "gpt2"},
                                {"gpt3", "gpt3-175b"},
                                {"breadth-first", "breadth"},
                                {"bfs", "breadth"},
                                {"depth-first", "depth"},
                                {"dfs", "depth"},
                                {"eos", "end-of-document"}};

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& legal) {
  const auto part = name.substr(0, longest);
  const auto best = std::min_element(
      legal.begin(), legal.end(), [&](const auto& a, const auto& b) { return distance(part, a) < distance(part, b); });
  return best == legal.end() ? std::string() : *best;
}

std::string resembling(std::string_view name, const std::vector<std::string>& legal) {
  if (name.empty() || name.size() > longest) return {};
  const auto asked = plain_word(name), best = nearest(asked, legal);
  const auto most = std::max<std::size_t>(2, std::max(asked.size(), best.size()) / 3);
  return !best.empty() && distance(asked, best) <= std::min(most, best.size() - 1) ? best : std::string();
}

std::string value_hint(std::string_view value, const std::vector<std::string>& legal) {
  const auto asked = plain_word(value);
  for (const auto& [theirs, ours] : synonyms)
    if (asked == theirs && std::find(legal.begin(), legal.end(), ours) != legal.end())
      return fmt::format("did you mean '{}'?", ours);
  const auto close = resembling(value, legal);
  return close.empty() ? std::string() : fmt::format("did you mean '{}'?", close);
}

}  // namespace trainyard::base
