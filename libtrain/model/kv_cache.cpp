// Rows of a cache, in rings for sliding windows, and attention to the rows that a layer's lists name.
#include "libtrain/model/kv_cache.h"

#include "kernels/cached_attention/cached_attention.h"
#include "kernels/cast/cast.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/tile_list.h"

#include <algorithm>

namespace trainyard::model {

namespace {

struct Run {
  std::int64_t begin, end;  // positions
};

// The first position that a window lets the query at position p see.
std::int64_t begin_of_window(const kernels::Visibility& v, std::int64_t p) {
  return v.window > 0 ? std::max<std::int64_t>(0, p + 1 - v.window) : 0;
}

// The positions that the query at position p sees by the lists and the window, in ascending runs that do not touch.
std::vector<Run> seen_runs(const kernels::Visibility& visibility, std::int64_t head, std::int64_t p) {
  const auto& list = visibility.by_queries;
  const auto from = begin_of_window(visibility, p);
  std::vector<Run> runs;
  const auto row = (list.heads == 1 ? 0 : head) * list.tiles + p / plan::attention_tile;
  const auto query_part = p % plan::attention_tile / plan::attention_part;
  for (auto n = list.begin[row]; n < list.begin[row + 1]; ++n)
    for (std::int64_t c = 0; c < 4; ++c) {
      if ((list.parts[n] >> (4 * query_part + c) & 1) == 0) continue;
      const auto first = list.other[n] * plan::attention_tile + c * plan::attention_part, begin = std::max(first, from),
                 end = std::min(first + plan::attention_part, p + 1);
      if (begin >= end) continue;
      if (!runs.empty() && runs.back().end == begin) runs.back().end = end;
      else runs.push_back({begin, end});
    }
  return runs;
}

// Calls `run` for the rows of positions [begin, end) of a ring, run by run: one run, or two.
template <class Run> void over_ring(std::int64_t begin, std::int64_t end, std::int64_t rows, const Run& run) {
  while (begin < end) {
    const auto n = std::min(end - begin, rows - begin % rows);
    run(begin % rows, begin, n);
    begin += n;
  }
}

std::int64_t kv_width(const plan::ModelConfig& m) { return m.kv_heads * m.head_dim(); }

}  // namespace

SourceCache::SourceCache(const plan::ModelConfig& model, base::DType dtype, std::int64_t rows, tensor::Arena& arena) {
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    kv.push_back(plan::is_in_encoder(model, layer) ? base::View{} : arena.allocate(dtype, {rows, 2 * kv_width(model)}));
}

std::int64_t SourceCache::bytes(const plan::ModelConfig& model, base::DType dtype, std::int64_t rows) {
  return model.decoder_layers * base::aligned(rows * 2 * kv_width(model) * base::size_of(dtype));
}

std::int64_t KvCache::rows(const plan::ModelConfig& m) {
  if (!m.attention.causal || m.attention.layout.at(0) != "sliding") return m.context;
  return std::min(m.context, m.attention.window * m.attention.block);
}

KvCache::KvCache(const plan::ModelConfig& model, base::DType dtype, tensor::Arena& arena) {
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (plan::is_in_encoder(model, layer)) {
      keys.emplace_back(), values.emplace_back();
      continue;
    }
    const auto n = rows(plan::layer_model(model, layer));
    keys.push_back(arena.allocate(dtype, {n, model.kv_heads * model.head_dim()}));
    values.push_back(arena.allocate(dtype, {n, model.kv_heads * model.head_dim()}));
  }
}

std::int64_t KvCache::bytes(const plan::ModelConfig& model, base::DType dtype) {
  std::int64_t bytes = 0;
  for (std::int64_t layer = model.encoder_layers; layer < model.layers; ++layer)
    bytes += 2 * base::aligned(rows(plan::layer_model(model, layer)) * model.kv_heads * model.head_dim() *
                               base::size_of(dtype));
  return bytes;
}

std::int64_t KvCache::scratch_bytes(const plan::ModelConfig& model, std::int64_t texts) {
  const auto lists = plan::attention_list_bytes(model, plan::longest_sequence(model));
  const auto gathered = lists > 0 ? 2 * base::aligned(model.context * model.kv_heads * model.head_dim() * 4) : 0;
  const auto output = base::aligned(texts * model.hidden * 4);  // the output of attention, which its layer holds
  const auto bias = plan::has_relative_positions(model)
                        ? base::aligned(model.relative_buckets * 4) + base::aligned(model.heads * model.context * 4)
                        : 0;
  return lists + gathered + output + bias + plan::cached_attention_scratch_bytes(model.context, model.heads, 4);
}

void KvCache::go_on_from(tensor::Exec& exec, const KvCache& other) {
  for (std::size_t layer = 0; layer < keys.size(); ++layer) {
    if (!keys[layer]) continue;
    const auto n = std::min(other.length, keys[layer].rows());
    kernels::copy(exec, other.keys[layer].row_range(0, n), keys[layer].row_range(0, n));
    kernels::copy(exec, other.values[layer].row_range(0, n), values[layer].row_range(0, n));
  }
  length = other.length, source = other.source;
}

void KvCache::keep(tensor::Exec& exec, std::int64_t layer, base::View k, base::View v) {
  const auto &to_k = base::at(keys, layer), &to_v = base::at(values, layer);
  const auto n = k.rows(), kept = std::min(n, to_k.rows());
  over_ring(length + n - kept, length + n, to_k.rows(),
            [&](std::int64_t row, std::int64_t position, std::int64_t count) {
              kernels::copy(exec, k.row_range(position - length, count), to_k.row_range(row, count));
              kernels::copy(exec, v.row_range(position - length, count), to_v.row_range(row, count));
            });
}

void KvCache::attend(tensor::Exec& exec, std::int64_t layer, const kernels::AttentionShape& s, base::View q,
                     base::View out) const {
  const auto &k = base::at(keys, layer), &v = base::at(values, layer);
  const auto& list = s.visibility.by_queries;
  if (list.begin == nullptr) {
    const auto begin = begin_of_window(s.visibility, length), rows = length + 1 - begin;
    base::View bias;
    if (s.bias != nullptr)
      bias = {const_cast<void*>(s.bias), base::accumulation_of(q.dtype), {s.heads, rows}, q.device};
    return kernels::cached_attention(exec, {.q = q,
                                            .k = k.row_range(begin, rows),
                                            .v = v.row_range(begin, rows),
                                            .heads = s.heads,
                                            .kv_heads = s.kv_heads,
                                            .scale = s.scale,
                                            .out = out,
                                            .softcap = s.softcap,
                                            .bias = bias});
  }
  TRAINYARD_ASSERT(s.bias == nullptr, "a bias of scores, and lists in layer {}", layer);
  TRAINYARD_ASSERT(!exec.on_gpu(), "the lists of a text's cache are read on the host");
  // Copies the rows that are seen side by side: once for all heads, or for each head with a list of its own.
  const auto attend_heads = [&](std::int64_t first, std::int64_t heads) {
    tensor::ArenaScope scope(exec.scratch());
    const auto d = s.head_dim, group = s.heads / s.kv_heads, kv = std::max<std::int64_t>(1, heads / group);
    const auto runs = seen_runs(s.visibility, s.visibility.first_head + first, length);
    std::int64_t seen = 0;
    for (const auto& run : runs) seen += run.end - run.begin;
    const auto my_q = q.columns(first * d, heads * d), my_out = out.columns(first * d, heads * d);
    if (seen == 0) return kernels::fill(exec, my_out, 0);
    const auto my_k = exec.scratch().allocate(k.dtype, {seen, kv * d}),
               my_v = exec.scratch().allocate(k.dtype, {seen, kv * d});
    std::int64_t at = 0;
    for (const auto& run : runs)
      over_ring(run.begin, run.end, k.rows(), [&](std::int64_t row, std::int64_t, std::int64_t count) {
        const auto column = first / group * d;
        kernels::copy(exec, k.row_range(row, count).columns(column, kv * d), my_k.row_range(at, count));
        kernels::copy(exec, v.row_range(row, count).columns(column, kv * d), my_v.row_range(at, count));
        at += count;
      });
    kernels::cached_attention(exec, {.q = my_q,
                                     .k = my_k,
                                     .v = my_v,
                                     .heads = heads,
                                     .kv_heads = kv,
                                     .scale = s.scale,
                                     .out = my_out,
                                     .softcap = s.softcap});
  };
  if (list.heads == 1) return attend_heads(0, s.heads);
  for (std::int64_t h = 0; h < s.heads; ++h) attend_heads(h, 1);
}

}  // namespace trainyard::model
