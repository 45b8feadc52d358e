// Checks an encoder-decoder model.
#include "libtrain/plan/model_file/encoder_problems.h"

#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/conditions.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

void relative_problems(const ModelConfig& m, std::vector<std::string>& out) {
  if (!has_relative_positions(m)) {
    const ModelConfig usual;
    if (m.relative_buckets != usual.relative_buckets)
      out.emplace_back("relative-buckets needs positions relative: leave it out");
    if (m.relative_distance != usual.relative_distance)
      out.emplace_back("relative-distance needs positions relative: leave it out");
    return;
  }
  if (!has_encoder(m)) out.emplace_back("positions relative needs encoder-layers");
  // Half of the encoder's buckets are for later keys. Half of a direction's have one distance each.
  const auto both = RelativeBucketRule{m.relative_buckets, m.relative_distance, true};
  const auto one = RelativeBucketRule{m.relative_buckets, m.relative_distance, false};
  if (m.relative_buckets % 2 != 0 || m.relative_buckets < 4)
    out.push_back(fmt::format("relative-buckets {} is not an even number from 4 on", m.relative_buckets));
  else if (!both.valid() || !one.valid())
    out.push_back(fmt::format("relative-distance {} is not above half of relative-buckets {}", m.relative_distance,
                              m.relative_buckets));
}

}  // namespace

std::vector<std::string> encoder_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  relative_problems(m, out);
  const auto named = std::count(m.branches.begin(), m.branches.end(), cross_attention_branch);
  if (!has_encoder(m)) {
    if (m.decoder_layers > 0)
      out.push_back(
          fmt::format("decoder-layers {} needs encoder-layers: a decoder alone has layers", m.decoder_layers));
    if (m.decoder_start >= 0) out.emplace_back("decoder-start needs encoder-layers: leave it out");
    if (named > 0) out.push_back(fmt::format("the branch {} needs encoder-layers", cross_attention_branch));
    return out;
  }
  if (m.layers != m.encoder_layers + m.decoder_layers || m.decoder_layers < 1)
    out.push_back(fmt::format("layers {} is not the sum of encoder-layers {} and decoder-layers {}: leave layers out",
                              m.layers, m.encoder_layers, m.decoder_layers));
  if (named > 0)
    out.push_back(fmt::format("the layers behind an encoder have the branch {} by themselves: leave it out of branches",
                              cross_attention_branch));
  if (std::count(m.branches.begin(), m.branches.end(), "attention") != 1)
    out.emplace_back("with encoder-layers the branches of a layer have attention once");
  if (!m.attention.causal)
    out.emplace_back("with encoder-layers attention-causal is of the decoder, and is on: leave it out");
  if (m.decoder_start >= m.vocabulary)
    out.push_back(fmt::format("decoder-start {} is no token of a vocabulary of {}", m.decoder_start, m.vocabulary));
  const auto not_with = [&](bool has, const char* what) {
    if (has) out.push_back(fmt::format("{} is not supported with encoder-layers: leave one of them out", what));
  };
  not_with(m.attention.layout != std::vector<std::string>{"dense"}, "attention-layout");
  not_with(m.attention.window_tokens != std::vector<std::int64_t>{0}, "attention-window-tokens");
  not_with(m.embedding_norm, "embedding-norm");
  not_with(has_segment_table(m), "segments");
  not_with(has_masked_head(m), "head masked");
  not_with(norms_queries_and_keys(m), "qk-norm");
  not_with(m.parallel_residual, "parallel-residual");
  not_with(has_adapter(m), "adapter-rank");
  return out;
}

}  // namespace trainyard::plan
