// Checks shapes and types and dispatches attention.
#include "kernels/attention/attention.h"

#include "kernels/attention/attention_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "libtrain/base/environment.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/tile_list.h"

#include <bit>

namespace trainyard::kernels {

namespace {

AttentionTiles tiles(const TileView& list, const AttentionShape& s) {
  if (list.begin == nullptr) return {};
  TRAINYARD_ASSERT(list.tiles * plan::attention_tile >= s.sequence, "{} tiles for {} tokens", list.tiles, s.sequence);
  TRAINYARD_ASSERT(list.heads == 1 || s.visibility.first_head + s.heads <= list.heads, "lists of {} heads for {}",
                   list.heads, s.visibility.first_head + s.heads);
  return {list.begin, list.other, list.parts, list.tiles, list.heads};
}

AttentionArgs arguments(tensor::Exec& exec, const char* operation, const AttentionShape& s, base::View q, base::View k,
                        base::View v, base::View start, base::View out, base::View lse) {
  const auto n = s.batch * s.sequence;
  TRAINYARD_ASSERT(s.heads % s.kv_heads == 0, "{} heads on {} key-value heads", s.heads, s.kv_heads);
  require_shape(q, n, s.heads * s.head_dim, "q");
  require_shape(k, n, s.kv_heads * s.head_dim, "k");
  require_shape(v, n, s.kv_heads * s.head_dim, "v");
  require_shape(out, n, s.heads * s.head_dim, "out");
  require_shape(lse, s.batch * s.heads, s.sequence, "lse");
  require_working_type(operation, {{"q", q}, {"k", k}, {"v", v}, {"out", out}});
  require_type(lse, accumulation_of(q.dtype), operation, "lse");
  require_type(start, base::DType::i32, operation, "document_start");
  TRAINYARD_ASSERT(s.scale > 0, "scores times {}: the greatest would not stay the greatest", s.scale);
  TRAINYARD_ASSERT(start.count() == n, "{} document starts for {} tokens", start.count(), n);
  AttentionArgs a{};
  a.batch = s.batch, a.sequence = s.sequence, a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim,
  a.scale = s.scale;
  a.threshold = static_cast<std::uint32_t>(s.dropout * 0x1p32);
  a.keep_scale = static_cast<float>(1 / (1 - s.dropout));
  a.seed = s.seed, a.site = s.site, a.samples = s.samples;
  a.document_start = start.ptr<std::int32_t>(), a.key_end = s.key_end;
  a.causal = s.visibility.causal, a.first_head = s.visibility.first_head;
  a.by_queries = tiles(s.visibility.by_queries, s), a.by_keys = tiles(s.visibility.by_keys, s);
  a.q = mat(q), a.k = mat(k), a.v = mat(v), a.out = mat(out), a.lse = mat(lse);
  a.threads = exec.threads();
  a.hopper = exec.on_gpu() && base::hopper_wanted();
  return a;
}

// Scratch on the CPU: plan::attention_forward_scratch_bytes, plan::attention_backward_scratch_bytes.
void reserve(tensor::Exec& exec, AttentionArgs& a, std::int64_t shared, std::int64_t thread) {
  a.slots = plan::attention_slots(a.batch * a.kv_heads, a.threads);
  a.shared_part = shared, a.scratch_part = thread;
  a.shared = static_cast<char*>(exec.scratch().allocate_bytes(a.slots * shared));
  a.scratch = static_cast<char*>(exec.scratch().allocate_bytes(a.threads * thread));
}

}  // namespace

// Counts pairs by causality or by the parts of lists, whatever documents hide of them.
KernelWork work_of(const AttentionArgs& a) {
  const auto t = static_cast<double>(a.sequence);
  const auto& list = a.by_queries;
  double pairs = static_cast<double>(a.heads) * (a.causal ? t * (t + 1) / 2 : t * t);
  if (list.begin != nullptr) {
    const auto rows = (a.sequence + plan::attention_tile - 1) / plan::attention_tile;
    std::int64_t parts = 0;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const auto first = list.heads == 1 ? 0 : (a.first_head + h) * list.tiles;
      for (auto e = list.begin[first]; e < list.begin[first + rows]; ++e) parts += std::popcount(list.parts[e]);
    }
    pairs = static_cast<double>(parts * plan::attention_part * plan::attention_part);
  }
  KernelWork work;
  work.operations = 2.0 * a.products * static_cast<double>(a.batch) * pairs * static_cast<double>(a.head_dim);
  work.of_bf16 = a.q.type == Type::bf16;
  return work;
}

void attention_forward(tensor::Exec& exec, const AttentionShape& s, base::View q, base::View k, base::View v,
                       base::View start, base::View out, base::View lse) {
  auto a = arguments(exec, "attention_forward", s, q, k, v, start, out, lse);
  exec.run([&exec, a]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    if (exec.on_gpu())
      a.scratch = static_cast<char*>(exec.scratch().allocate_bytes(plan::gpu_attention_forward_scratch_bytes));
    else
      reserve(exec, a, plan::attention_forward_shared_bytes(a.sequence, a.head_dim),
              plan::attention_forward_thread_bytes(a.head_dim));
    a.products = 2, a.team = team_seconds(a.threads);
    TRAINYARD_CALL(exec, attention_forward, a);
  });
}

void attention_backward(tensor::Exec& exec, const AttentionShape& s, base::View q, base::View k, base::View v,
                        base::View start, base::View out, base::View lse, base::View dout, base::View dq, base::View dk,
                        base::View dv) {
  auto a = arguments(exec, "attention_backward", s, q, k, v, start, out, lse);
  require_shape(dout, out.rows(), out.cols(), "dout");
  require_shape(dq, q.rows(), q.cols(), "dq");
  require_shape(dk, k.rows(), k.cols(), "dk");
  require_shape(dv, v.rows(), v.cols(), "dv");
  require_working_type("attention_backward", {{"q", q}, {"dout", dout}, {"dq", dq}, {"dk", dk}, {"dv", dv}});
  const auto element = base::size_of(lse.dtype);
  a.dout = mat(dout), a.dq = mat(dq), a.dk = mat(dk), a.dv = mat(dv);
  exec.run([&exec, a, element]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    if (exec.on_gpu()) {
      const auto bytes = plan::gpu_attention_backward_scratch_bytes(a.batch, a.sequence, a.heads, element);
      a.scratch = static_cast<char*>(exec.scratch().allocate_bytes(bytes));
    } else {
      reserve(exec, a, plan::attention_backward_shared_bytes(a.sequence, a.head_dim, a.heads / a.kv_heads),
              plan::attention_backward_thread_bytes(a.head_dim));
    }
    a.products = 5, a.team = team_seconds(a.threads);
    TRAINYARD_CALL(exec, attention_backward, a);
  });
}

}  // namespace trainyard::kernels
