// Checks shapes and types and dispatches attention.
#include "kernels/attention/attention.h"

#include "kernels/attention/attention_args.h"
#include "kernels/cast/cast.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "libtrain/base/environment.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/tile_list.h"

#include <algorithm>
#include <bit>

namespace trainyard::kernels {

namespace {

// Checks a list, which covers at least the sequence.
void require_list(const TileView& list, const AttentionShape& s) {
  if (list.begin == nullptr) return;
  TRAINYARD_ASSERT(list.tiles * plan::attention_tile >= s.sequence, "{} tiles for {} tokens", list.tiles, s.sequence);
  TRAINYARD_ASSERT(list.heads == 1 || s.visibility.first_head + s.heads <= list.heads, "lists of {} heads for {}",
                   list.heads, s.visibility.first_head + s.heads);
}

// Sets what both passes have. Pass is AttentionForward or AttentionBackward.
template <class Pass, class Args>
void set_arguments(Args& a, tensor::Exec& exec, const char* operation, const Pass& p) {
  const auto& s = p.shape;
  const auto n = s.batch * s.sequence, keys = key_count(s), m = s.batch * keys;
  TRAINYARD_ASSERT(s.heads % s.kv_heads == 0, "{} heads on {} key-value heads", s.heads, s.kv_heads);
  require_shape(p.q, n, s.heads * s.head_dim, "q");
  require_shape(p.k, m, s.kv_heads * s.head_dim, "k");
  require_shape(p.v, m, s.kv_heads * s.head_dim, "v");
  require_shape(p.out, n, s.heads * s.head_dim, "out");
  require_shape(p.lse, s.batch * s.heads, s.sequence, "lse");
  require_working_type(operation, {{"q", p.q}, {"k", p.k}, {"v", p.v}, {"out", p.out}});
  require_type(p.lse, accumulation_of(p.q.dtype), operation, "lse");
  require_type(p.document_start, base::DType::i32, operation, "document_start");
  TRAINYARD_ASSERT(s.scale > 0, "scores times {}: the greatest would not stay the greatest", s.scale);
  TRAINYARD_ASSERT(s.softcap >= 0 && s.visibility.window >= 0, "a cap of {}, a window of {}", s.softcap,
                   s.visibility.window);
  TRAINYARD_ASSERT(s.sequence <= any_reach / 2 && keys <= any_reach / 2, "{} queries and {} keys in a sequence",
                   s.sequence, keys);
  const bool lists = s.visibility.by_queries.begin != nullptr || s.visibility.by_keys.begin != nullptr;
  TRAINYARD_ASSERT(keys == s.sequence || (!s.visibility.causal && s.visibility.window == 0 && !lists),
                   "{} queries and {} keys: causal {}, window {}, lists {}", s.sequence, keys, s.visibility.causal,
                   s.visibility.window, lists);
  TRAINYARD_ASSERT(p.document_start.count() == n, "{} document starts for {} tokens", p.document_start.count(), n);
  require_list(s.visibility.by_queries, s);
  require_list(s.visibility.by_keys, s);
  static_cast<AttentionShape&>(a) = s;
  a.threshold = static_cast<std::uint32_t>(s.dropout * 0x1p32);
  a.keep_scale = static_cast<float>(1 / (1 - s.dropout));
  a.document_start = p.document_start.template ptr<std::int32_t>();
  a.q = mat(p.q), a.k = mat(p.k), a.v = mat(p.v), a.out = mat(p.out), a.lse = mat(p.lse);
  a.reach = s.visibility.window > 0 && s.visibility.window < s.sequence ? s.visibility.window - 1 : any_reach;
  a.keys = keys;
  a.threads = exec.threads();
  a.hopper = exec.on_gpu() && base::hopper_wanted();
}

// Scratch on the CPU: plan::attention_forward_scratch_bytes, plan::attention_backward_scratch_bytes.
void reserve(tensor::Exec& exec, AttentionArgs& a, std::int64_t shared, std::int64_t thread) {
  a.slots = plan::attention_slots(a.batch * a.kv_heads, a.threads);
  a.shared_part = shared, a.scratch_part = thread;
  a.shared = static_cast<char*>(exec.scratch().allocate_bytes(a.slots * shared));
  a.scratch = static_cast<char*>(exec.scratch().allocate_bytes(a.threads * thread));
}

// The parts of a tile of a list that have a pair within reach. away: the tile's first query minus its first key.
unsigned parts_in_reach(unsigned parts, std::int64_t away, std::int64_t reach) {
  constexpr auto part = plan::attention_part;
  constexpr int side = static_cast<int>(plan::attention_tile / part);
  for (int r = 0; r < side; ++r)
    for (int c = 0; c < side; ++c) {
      const auto between = away + (r - c) * part;
      if (between - (part - 1) > reach || between + (part - 1) < -reach) parts &= ~(1u << (side * r + c));
    }
  return parts;
}

// Counts pairs by causality and window, or by the parts of lists, whatever documents hide of them.
KernelWork work_of_pairs(const AttentionArgs& a) {
  const auto t = static_cast<double>(a.sequence), keys = static_cast<double>(a.keys),
             far = std::max(0.0, t - 1 - static_cast<double>(a.reach));
  const auto& list = a.visibility.by_queries;
  // Out of reach are the pairs of a triangle of side `far`, on each side of the diagonal.
  double pairs = static_cast<double>(a.heads) *
                 (a.visibility.causal ? t * (t + 1) / 2 - far * (far + 1) / 2 : t * keys - far * (far + 1));
  if (list.begin != nullptr) {
    const auto rows = (a.sequence + plan::attention_tile - 1) / plan::attention_tile;
    std::int64_t parts = 0;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const auto first = list.heads == 1 ? 0 : (a.visibility.first_head + h) * list.tiles;
      for (std::int64_t row = 0; row < rows; ++row)
        for (auto e = list.begin[first + row]; e < list.begin[first + row + 1]; ++e)
          parts +=
              std::popcount(a.reach == any_reach
                                ? list.parts[e]
                                : parts_in_reach(list.parts[e], (row - list.other[e]) * plan::attention_tile, a.reach));
    }
    pairs = static_cast<double>(parts * plan::attention_part * plan::attention_part);
  }
  KernelWork work;
  work.operations = 2.0 * a.products * static_cast<double>(a.batch) * pairs * static_cast<double>(a.head_dim);
  work.of_bf16 = a.q.type == Type::bf16;
  return work;
}

}  // namespace

KernelWork work_of(const AttentionForwardArgs& a) { return work_of_pairs(a); }
KernelWork work_of(const AttentionBackwardArgs& a) { return work_of_pairs(a); }

void attention_forward(tensor::Exec& exec, const AttentionForward& attention) {
  AttentionForwardArgs a;
  set_arguments(a, exec, "attention_forward", attention);
  if (a.batch * a.sequence == 0) return;
  exec.run([&exec, a]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    if (exec.on_gpu())
      a.scratch = static_cast<char*>(exec.scratch().allocate_bytes(plan::gpu_attention_forward_scratch_bytes));
    else
      reserve(exec, a, plan::attention_forward_shared_bytes(a.keys, a.head_dim),
              plan::attention_forward_thread_bytes(a.head_dim));
    a.products = 2, a.team = team_seconds(a.threads);
    TRAINYARD_CALL(exec, attention_forward, a);
  });
}

void attention_backward(tensor::Exec& exec, const AttentionBackward& b) {
  AttentionBackwardArgs a;
  set_arguments(a, exec, "attention_backward", b);
  require_shape(b.dout, b.out.rows(), b.out.cols(), "dout");
  require_shape(b.dq, b.q.rows(), b.q.cols(), "dq");
  require_shape(b.dk, b.k.rows(), b.k.cols(), "dk");
  require_shape(b.dv, b.v.rows(), b.v.cols(), "dv");
  require_working_type("attention_backward", {{"q", b.q}, {"dout", b.dout}, {"dq", b.dq}, {"dk", b.dk}, {"dv", b.dv}});
  if (b.d_bias) {
    TRAINYARD_ASSERT(a.bias != nullptr, "a gradient of no bias");
    require_shape(b.d_bias, a.heads, distance_count(a), "d_bias");
    require_type(b.d_bias, b.lse.dtype, "attention_backward", "d_bias");
  }
  if (a.batch * a.sequence == 0) {  // sums over no queries
    for (const auto& sum : {b.dk, b.dv, b.d_bias})
      if (sum && sum.count() > 0) fill(exec, sum, 0);
    return;
  }
  const auto element = base::size_of(b.lse.dtype);
  a.dout = mat(b.dout), a.dq = mat(b.dq), a.dk = mat(b.dk), a.dv = mat(b.dv), a.d_bias = mat(b.d_bias);
  exec.run([&exec, a, element]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    if (exec.on_gpu()) {
      const auto distances = a.d_bias.cols;
      const auto bytes = plan::gpu_attention_backward_scratch_bytes(a.batch, a.sequence, a.heads, element, distances);
      a.scratch = static_cast<char*>(exec.scratch().allocate_bytes(bytes));
    } else {
      const auto distances = a.d_bias.cols;
      reserve(exec, a, plan::attention_backward_shared_bytes(a.sequence, a.head_dim, a.heads / a.kv_heads, distances),
              plan::attention_backward_thread_bytes(a.sequence, a.head_dim, distances));
    }
    a.products = 5, a.team = team_seconds(a.threads);
    TRAINYARD_CALL(exec, attention_backward, a);
  });
}

}  // namespace trainyard::kernels
