// Checks sparse layouts and windows.
#include "libtrain/plan/model_file/attention_problems.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/block_ranges.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace trainyard::plan {

namespace {

struct KeyReaders {
  const char* key;
  std::vector<std::string> layouts;
};
// The layouts that read a key. Every layout reads the keys that are not listed here.
const std::vector<KeyReaders>& readers() {
  static const std::vector<KeyReaders> all = {
      {"attention-block", {"fixed", "variable", "bigbird", "longformer", "sliding", "file"}},
      {"attention-window", {"bigbird", "longformer", "sliding"}},
      {"attention-local", {"fixed", "variable"}},
      {"attention-global", {"fixed", "bigbird"}},
      {"attention-patterns", {"fixed"}},
      {"attention-global-blocks", {"variable", "longformer"}},
      {"attention-random", {"variable", "bigbird"}},
      {"attention-horizontal", {"fixed", "variable"}},
      {"attention-per-head", {"fixed", "variable", "bigbird"}},
      {"attention-shared-draws", {"variable", "bigbird"}},
      {"attention-seed", {"variable", "bigbird"}},
      {"attention-file", {"file"}},
      {"attention-file-blocks", {"file"}},
  };
  return all;
}

bool occurrences(const ModelConfig& m, const std::string& layout) {
  const auto& all = m.attention.layout;
  return std::find(all.begin(), all.end(), layout) != all.end();
}

std::vector<std::string> idle_attention_keys(const ModelConfig& m) {
  if (m.attention == AttentionConfig()) return {};
  auto copy = m;
  ModelConfig usual;
  const auto usual_fields = fields_of(usual);
  std::vector<std::string> out;
  for (std::size_t i = 0; const auto& f : fields_of(copy)) {
    if (const auto& other = usual_fields[i++]; f.get() == other.get()) continue;
    for (const auto& r : readers())
      if (f.name == r.key &&
          std::none_of(r.layouts.begin(), r.layouts.end(), [&](const auto& l) { return occurrences(m, l); }))
        out.push_back(fmt::format("{} is read by the layouts {}, and no layer has one of them: leave it out", f.name,
                                  fmt::join(r.layouts, ", ")));
  }
  return out;
}

void fixed_problems(const AttentionConfig& a, std::vector<std::string>& out) {
  if (a.local.size() != 1) {
    out.push_back(fmt::format("attention-local lists {} window sizes: the layout fixed has only one", a.local.size()));
    return;
  }
  if (a.global < 1 || a.global > a.local[0])
    out.push_back(fmt::format("attention-global {} of the layout fixed is not between 1 and attention-local {}",
                              a.global, a.local[0]));
  else if (a.patterns > a.local[0] / a.global)
    out.push_back(fmt::format(
        "attention-patterns {}: a window of {} blocks has room for only {} different runs of {} global columns",
        a.patterns, a.local[0], a.local[0] / a.global, a.global));
  if (a.patterns > 1 && !a.per_head)
    out.push_back(fmt::format("attention-patterns {} needs heads that differ: set attention-per-head on", a.patterns));
}

// One problem of the blocks that a file gave; empty if there is none.
std::string file_problem(const ModelConfig& m) {
  const auto& a = m.attention;
  if (a.file_blocks.empty())
    return "attention-layout file needs the key attention-file or attention-file-blocks, and neither is set";
  const auto name = name_of_file_layout(a);
  if (const auto heads = file_heads(a); heads != 1 && heads != m.heads)
    return fmt::format("the layout of {} is for {} heads, the model has {}: one for each of them, or one for all", name,
                       heads, m.heads);
  const auto side = file_rows_a_side(a);
  if (side > most_file_rows)
    return fmt::format("the layout of {} has {} blocks a side, more than {}", name, side, most_file_rows);
  if (const auto most = (m.context + a.block - 1) / a.block; side > most)
    return fmt::format("the layout of {} has {} blocks of {} a side, a context of {} tokens only {}", name, side,
                       a.block, m.context, most);
  const auto heads = file_rows(a.file_blocks.str());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    if (static_cast<std::int64_t>(heads[h].size()) != side)
      return fmt::format("the layout of {} has {} rows in head {}, {} in head 0", name, heads[h].size(), h, side);
    for (std::size_t i = 0; i < heads[h].size(); ++i) {
      std::int64_t end = 0;
      for (const auto& range : heads[h][i]) {
        if (range.begin < end || range.end > side)
          return fmt::format("row {} of head {} of the layout of {} does not name columns from 0 to {} in order", i, h,
                             name, side - 1);
        end = range.end;
      }
    }
  }
  return {};
}

// Lists count in 32 bits and are made block by block, so their size has a bound.
std::string layout_too_large(const ModelConfig& m) {
  const auto sequence = longest_sequence(m);
  constexpr double most_side = 8192;
  for (std::int64_t layer = 0;
       layer < std::min<std::int64_t>(m.layers, static_cast<std::int64_t>(m.attention.layout.size())); ++layer) {
    const auto seen = layer_model(m, layer);
    if (!is_sparse(seen)) continue;
    const auto side = static_cast<double>((sequence + m.attention.block - 1) / m.attention.block);
    const auto hint = [&] { return m.attention.block < 128 ? "; larger blocks would help" : ""; };
    if (side > most_side)
      return fmt::format("a context of {} tokens has {:.0f} blocks of {}, and layouts have at most {:.0f} a side{}",
                         sequence, side, m.attention.block, most_side, hint());
    if (block_count(seen, sequence) > most_layout_columns)
      return fmt::format(
          "the layout {} has more than {} blocks in all heads of a layer for a context of {} tokens: too many for "
          "lists{}",
          seen.attention.layout[0], most_layout_columns, sequence, hint());
  }
  return {};
}

}  // namespace

std::vector<std::string> attention_problems(const ModelConfig& m) {
  const auto& a = m.attention;
  auto out = idle_attention_keys(m);
  if (std::find(m.branches.begin(), m.branches.end(), "attention") == m.branches.end() && a != AttentionConfig())
    out.emplace_back("the layers have no branch 'attention', but attention keys are set: leave them out");
  if (a.block != 16 && a.block != 32 && a.block != 64 && a.block != 128)
    out.push_back(fmt::format("attention-block {} must be 16, 32, 64 or 128", a.block));
  if (static_cast<std::int64_t>(a.layout.size()) > m.layers)
    out.push_back(fmt::format("attention-layout names {} layers of {}", a.layout.size(), m.layers));
  if (a.window_tokens.empty())
    out.emplace_back("attention-window-tokens lists no number: 0 means that there is no window");
  if (static_cast<std::int64_t>(a.window_tokens.size()) > m.layers)
    out.push_back(fmt::format("attention-window-tokens lists {} layers of {}", a.window_tokens.size(), m.layers));
  if (std::any_of(a.window_tokens.begin(), a.window_tokens.end(), [](auto w) { return w < 0; }))
    out.emplace_back("attention-window-tokens lists a number below 0");
  if (!(a.softcap >= 0)) out.push_back(fmt::format("attention-softcap {} is below 0", a.softcap));
  try {
    if (occurrences(m, "variable") || occurrences(m, "longformer")) block_ranges(a.global_blocks);
  } catch (const base::InputError& e) {
    out.push_back(fmt::format("attention-global-blocks: {}; {}", e.what(), e.hint()));
  }
  if (occurrences(m, "fixed")) fixed_problems(a, out);
  if (a.causal && a.horizontal)
    out.emplace_back("attention-horizontal: its rows see all tokens, which a causal model forbids: leave it out");
  const auto draws = (occurrences(m, "bigbird") && a.random != 0) || (occurrences(m, "variable") && a.random > 0);
  if (a.per_head && !draws && !(occurrences(m, "fixed") && a.patterns > 1))
    out.emplace_back(
        "attention-per-head: nothing differs between heads: set attention-random or attention-patterns, or leave it "
        "out");
  if (a.shared_draws && !draws) out.emplace_back("attention-shared-draws: nothing is drawn: leave it out");
  try {
    if (occurrences(m, "file"))
      if (auto text = file_problem(m); !text.empty()) out.push_back(std::move(text));
  } catch (const base::InputError& e) {
    out.push_back(fmt::format("the layout of {}: {}; {}", name_of_file_layout(a), e.what(), e.hint()));
  }
  if (out.empty())
    if (auto text = layout_too_large(m); !text.empty()) out.push_back(std::move(text));
  return out;
}

}  // namespace trainyard::plan
