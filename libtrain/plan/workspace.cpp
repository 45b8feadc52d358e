// The most scratch each block uses: the arithmetic follows the order of allocations in libtrain/model, buffer by buffer.
#include "libtrain/base/error.h"
#include "libtrain/base/scratch.h"
#include "libtrain/plan/activations.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

using base::scratch_aligned;

class Workspace {
 public:
  Workspace(const ModelConfig& model, const MicroShape& shape, Pass pass)
      : m(model), s(shape), pass(pass), n(shape.rows()), element(base::size_of(shape.dtype)), statistics(shape.dtype == base::DType::f64 ? 8 : 4) {}

  std::int64_t embedding() const { return 0; }

  std::int64_t layer_forward() const {                   // what both branches add to the stream, and the most that one operation needs
    return rows(m.hidden) + std::max({joined_forward(qkv(), m.hidden, Adjacent::yes), rotary(), attention_kernel_forward(), product(n, m.hidden, m.hidden, Result::working),
                                      joined_forward(inner(), m.hidden, Adjacent::yes_without_biases), product(n, m.hidden, m.ffn, Result::working)});
  }
  std::int64_t head_forward() const { return pass == Pass::train ? 0 : loss() + chunk_product(); }

  std::int64_t attention_backward() const {
    const auto width = (m.heads + 2 * m.kv_heads) * m.head_dim();
    std::int64_t most = std::max(weight_gradient(m.hidden, m.hidden), product(n, m.hidden, m.hidden, Result::working));
    most = std::max(most, attention_kernel_backward());
    most = std::max(most, rotary());
    most = std::max(most, joined_backward(qkv(), m.hidden, Adjacent::yes));
    return rows(m.hidden) + std::max(rows(width) + most, norm());
  }
  std::int64_t ffn_backward() const {
    const bool gelu = m.activation == Activation::gelu_tanh;
    const auto buffers = gelu ? rows(m.ffn) : rows(2 * m.ffn) + rows(m.ffn);
    const auto most = std::max({weight_gradient(m.hidden, m.ffn), product(n, m.ffn, m.hidden, Result::working),
                                joined_backward(inner(), m.hidden, Adjacent::yes_without_biases)});
    return rows(m.hidden) + std::max(buffers + most, norm());
  }
  std::int64_t head_backward() const {
    const auto c = std::min(n, head_chunk_tokens(s.device)), v = m.stored_vocabulary(), last = n % c == 0 ? c : n % c;
    auto most = std::max(chunk_product(), product(c, m.hidden, v, Result::working));
    for (auto k : {c, last}) most = std::max(most, product(v, m.hidden, k, Result::wide));
    return std::max(loss() + most, norm());
  }

 private:
  enum class Result { working, wide };                   // wide: f32 although the working dtype is bf16
  enum class Adjacent { yes, yes_without_biases };       // are the weights of neighbours adjacent in the unit's layout?

  std::int64_t rows(std::int64_t cols) const { return scratch_aligned(n * cols * element); }
  bool gpu() const { return s.device == base::DeviceKind::cuda; }
  std::int64_t rotary() const { return m.positions == Positions::rotary && !gpu() ? base::rotary_scratch_bytes(n, m.head_dim()) : 0; }
  std::int64_t norm() const { return base::norm_scratch_bytes(n, m.hidden, statistics); }
  std::int64_t product(std::int64_t rows_, std::int64_t cols, std::int64_t inner_, Result result) const {
    if (gpu()) return base::gpu_gemm_scratch_bytes;
    return base::gemm_scratch_bytes(rows_, cols, inner_, result == Result::working && s.dtype == base::DType::bf16);
  }
  std::int64_t weight_gradient(std::int64_t out, std::int64_t in) const {
    const auto bias = m.biases ? base::column_sum_scratch_bytes(n, out, statistics) : 0, weight = product(out, in, n, Result::wide);
    return gpu() ? weight + bias : std::max(weight, bias);   // a GPU has both in one call
  }

  std::vector<std::int64_t> qkv() const { return {m.hidden, m.kv_heads * m.head_dim(), m.kv_heads * m.head_dim()}; }
  std::vector<std::int64_t> inner() const { return m.activation == Activation::swiglu ? std::vector{m.ffn, m.ffn} : std::vector{m.ffn}; }
  enum class Look { weights, weights_and_biases };
  // The widths of the products that neighbouring layers become (model::Joined): a gap appears where a tensor does not end at 64 bytes.
  std::vector<std::int64_t> spans(const std::vector<std::int64_t>& outs, std::int64_t in, Adjacent adjacent, Look look) const {
    std::vector<std::int64_t> widths;
    for (std::size_t i = 0; i < outs.size(); ++i) {
      const bool near = adjacent == Adjacent::yes || !m.biases;
      const bool joins = i > 0 && near && outs[i - 1] * in % 16 == 0 && (!m.biases || look == Look::weights || outs[i - 1] % 16 == 0);
      if (joins) widths.back() += outs[i];
      else widths.push_back(outs[i]);
    }
    return widths;
  }
  std::int64_t joined_forward(const std::vector<std::int64_t>& outs, std::int64_t in, Adjacent adjacent) const {
    std::int64_t most = 0;
    for (auto out : spans(outs, in, adjacent, Look::weights_and_biases)) most = std::max(most, product(n, out, in, Result::working));
    return most;
  }
  std::int64_t joined_backward(const std::vector<std::int64_t>& outs, std::int64_t in, Adjacent adjacent) const {
    const auto parts = spans(outs, in, adjacent, Look::weights);
    const bool wide = parts.size() > 1 && s.dtype == base::DType::bf16;   // added in f32, rounded once
    std::int64_t most = 0;
    for (auto out : parts) most = std::max(most, product(n, in, out, wide ? Result::wide : Result::working));
    if (wide) most += scratch_aligned(n * in * statistics);
    for (auto out : spans(outs, in, adjacent, Look::weights_and_biases)) most = std::max(most, weight_gradient(out, in));
    return most;
  }

  std::int64_t loss() const {                            // row losses, logits of a chunk, and their gradient where it is narrower
    const auto logits = std::min(n, head_chunk_tokens(s.device)) * m.stored_vocabulary();
    const bool narrow = pass == Pass::train && s.dtype == base::DType::bf16;
    return scratch_aligned(n * 8) + scratch_aligned(logits * statistics) + (narrow ? scratch_aligned(logits * element) : 0);
  }
  std::int64_t chunk_product() const { return product(std::min(n, head_chunk_tokens(s.device)), m.stored_vocabulary(), m.hidden, Result::wide); }

  std::int64_t attention_kernel_forward() const { return gpu() ? 0 : base::attention_forward_scratch_bytes(s.sequence, m.head_dim(), s.threads); }
  std::int64_t attention_kernel_backward() const {
    if (gpu()) return base::gpu_attention_backward_scratch_bytes(s.batch, s.sequence, m.heads, statistics);
    return base::attention_backward_scratch_bytes(s.sequence, m.head_dim(), m.heads / m.kv_heads, s.threads);
  }

  const ModelConfig& m;
  const MicroShape& s;
  Pass pass;
  std::int64_t n, element, statistics;
};

std::int64_t total(const std::vector<SavedTensor>& list) {
  std::int64_t bytes = 0;
  for (const auto& t : list) bytes += t.bytes();
  return bytes;
}

}  // namespace

std::int64_t stream_bytes(const ModelConfig& m, const MicroShape& s) { return scratch_aligned(s.rows() * m.hidden * base::size_of(s.dtype)); }

std::int64_t saved_bytes(const ModelConfig& m, const MicroShape& s, Recompute recompute) {
  const auto embedding = total(saved_tensors(m, BlockKind::embedding, s)), layer = total(saved_tensors(m, BlockKind::layer, s));
  const auto head = total(saved_tensors(m, BlockKind::head, s));
  if (recompute == Recompute::none) return embedding + m.layers * layer + head;
  return embedding + m.layers * stream_bytes(m, s) + std::max(layer, head);
}

std::int64_t activation_bytes(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute recompute) {
  if (pass == Pass::train) return stream_bytes(m, s) + saved_bytes(m, s, recompute);
  std::int64_t most = 0;
  for (const auto part : {Part::attention, Part::ffn, Part::head}) most = std::max(most, total(part_tensors(m, part, s, pass)));
  return stream_bytes(m, s) + most;
}

std::int64_t forward_workspace_bytes(const ModelConfig& m, BlockKind kind, const MicroShape& s, Pass pass) {
  const Workspace w(m, s, pass);
  if (kind == BlockKind::embedding) return w.embedding();
  return kind == BlockKind::head ? w.head_forward() : w.layer_forward();
}

std::int64_t backward_workspace_bytes(const ModelConfig& m, BlockKind kind, const MicroShape& s) {
  const Workspace w(m, s, Pass::train);
  if (kind == BlockKind::embedding) return w.embedding();
  return kind == BlockKind::head ? w.head_backward() : std::max(w.attention_backward(), w.ffn_backward());
}

std::int64_t workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute recompute) {
  std::int64_t most = 0;
  for (const auto kind : {BlockKind::embedding, BlockKind::layer, BlockKind::head}) {
    const auto forward = forward_workspace_bytes(m, kind, s, pass);
    most = std::max(most, forward);
    if (pass == Pass::evaluate) continue;
    const auto backward = backward_workspace_bytes(m, kind, s);
    const bool again = kind == BlockKind::layer && recompute == Recompute::layers;
    most = std::max(most, again ? stream_bytes(m, s) + std::max(forward, backward) : backward);
  }
  return most;
}

}  // namespace trainyard::plan
