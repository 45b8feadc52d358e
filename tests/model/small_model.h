// Small models and micro-batches for the tests of the blocks.
#pragma once

#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/plan/spec/conditions.h"
#include "tests/model/plain_store.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace trainyard::test {

inline plan::ModelConfig small_gpt2() {
  plan::ModelConfig m;
  m.name = "small-gpt2";
  m.layers = 2, m.hidden = 32, m.heads = 4, m.kv_heads = 4, m.ffn = 96, m.vocabulary = 131, m.context = 24;
  return m;
}

inline plan::ModelConfig small_llama() {
  auto m = small_gpt2();
  m.name = "small-llama";
  m.kv_heads = 2, m.ffn = 80, m.norm = plan::Norm::rms, m.positions = plan::Positions::rotary,
  m.activation = plan::Activation::swiglu;
  m.biases = plan::Biases::off, m.tied = false;
  return m;
}

// A model with post-norm and exact GELU.
inline plan::ModelConfig small_post() {
  auto m = small_gpt2();
  m.name = "small-post";
  m.norm_position = plan::NormPosition::post, m.activation = plan::Activation::gelu_erf;
  return m;
}

// A small BERT: small_post with a norm of the summed embeddings, segments and the masked head.
inline plan::ModelConfig small_bert() {
  auto m = small_post();
  m.name = "small-bert";
  m.embedding_norm = true, m.segments = 2, m.head = plan::HeadForm::masked;
  return m;
}

// Norms before and behind branches, gated tanh GELU, capped logits, scaled embeddings (Gemma Team 2024, "Gemma 2").
inline plan::ModelConfig small_sandwich() {
  auto m = small_llama();
  m.name = "small-sandwich";
  m.norm_position = plan::NormPosition::sandwich, m.activation = plan::Activation::geglu_tanh, m.norm_offset = 1;
  m.embedding_scale = 5.6, m.logit_softcap = 2, m.tied = true;
  return m;
}

// Norms behind branches alone, with layer norm, learned positions and unused rows of their table.
inline plan::ModelConfig small_inside_post() {
  auto m = small_gpt2();
  m.name = "small-inside-post";
  m.norm_position = plan::NormPosition::inside_post, m.activation = plan::Activation::gelu_erf, m.position_offset = 2;
  return m;
}

// Branches side by side.
inline plan::ModelConfig small_parallel() {
  auto m = small_gpt2();
  m.name = "small-parallel";
  m.parallel_residual = true, m.positions = plan::Positions::rotary, m.tied = false;
  return m;
}

// An encoder of one layer before a decoder of two, with sources of their own lengths.
inline plan::ModelConfig with_encoder(plan::ModelConfig m, std::int64_t encoder = 1, std::int64_t decoder = 2) {
  m.name += "-with-encoder";
  m.encoder_layers = encoder, m.decoder_layers = decoder, m.layers = encoder + decoder;
  return m;
}

// The same with a bias of relative positions, and scores that are not scaled (Raffel et al. 2020, "T5"). Its activation
// is smooth, for differences of the loss.
inline plan::ModelConfig small_relative(std::int64_t encoder = 1, std::int64_t decoder = 2) {
  auto m = with_encoder(small_llama(), encoder, decoder);
  m.name = "small-relative";
  m.positions = plan::Positions::relative, m.relative_buckets = 8, m.relative_distance = 12;
  m.activation = plan::Activation::geglu_tanh, m.tied = true, m.kv_heads = 4, m.query_scale = 1, m.head_size = 16;
  return m;
}

inline plan::ModelConfig with_dropout(plan::ModelConfig m) {
  m.dropout_embedding = 0.1, m.dropout_attention = 0.15, m.dropout_attention_residual = 0.2,
  m.dropout_ffn_residual = 0.25;
  return m;
}

// T5's places of dropout, and the factor before its head.
inline plan::ModelConfig with_inner_dropout(plan::ModelConfig m) {
  m = with_dropout(m);
  m.dropout_ffn = 0.3, m.dropout_final_norm = 0.2, m.head_scale = 0.6;
  return m;
}

// With low-rank adapters on these layers, by default on all that the model has, and everything else frozen.
inline plan::ModelConfig with_adapters(plan::ModelConfig m, std::vector<std::string> on = {}) {
  if (on.empty()) on = {"q", "k", "v", "o", "up", "down"};
  if (on.size() == 6 && plan::is_gated(m)) on.push_back("gate");
  m.adapter = {.rank = 8, .alpha = 12, .on = std::move(on)};
  return m;
}

// For n tokens of a sample: sets which tokens the model reads, its targets, and which places count.
using Hide = std::function<void(std::uint64_t sample, std::int64_t n, std::int32_t* tokens, std::int32_t* targets,
                                std::uint8_t* weights)>;

// Owns the arrays of a micro-batch. A window has T + 1 tokens. With the document mask, a token 0 ends a document.
struct Batch {
  std::vector<std::int32_t> tokens, targets, positions, start, ends;
  std::vector<std::uint8_t> weights;
  std::vector<double> counted;
  model::MicroBatch micro;

  Batch(const std::vector<std::vector<std::int32_t>>& windows, bool document_mask, std::uint64_t first_sample = 0,
        const Hide& hide = {}) {
    const auto b = static_cast<std::int64_t>(windows.size()), t = static_cast<std::int64_t>(windows.at(0).size()) - 1;
    for (const auto& w : windows) {
      std::int32_t begin = 0;
      for (std::int64_t i = 0; i < t; ++i) {
        const auto at = static_cast<std::size_t>(i);
        tokens.push_back(w[at]);
        targets.push_back(w[at + 1]);
        const bool end = document_mask && w[at] == 0;
        weights.push_back(end ? 0 : 1);
        start.push_back(begin);
        positions.push_back(static_cast<std::int32_t>(i) - begin);
        if (end) begin = static_cast<std::int32_t>(i) + 1;
      }
      const auto at = tokens.size() - static_cast<std::size_t>(t);
      if (hide) hide(first_sample, t, tokens.data() + at, targets.data() + at, weights.data() + at);
      micro.samples.push_back(first_sample++);
    }
    micro.tokens = placed(tokens, b, t);
    micro.targets = placed(targets, b, t);
    micro.positions = placed(positions, b, t);
    micro.document_start = placed(start, b, t);
    micro.weights = placed(weights, b, t);
    if (!on_gpu()) return;
    micro.keys = placed(micro.samples, 1, b).ptr<std::uint64_t>();
    micro.counted = std::count(weights.begin(), weights.end(), std::uint8_t{1});
    counted.assign(1, static_cast<double>(micro.counted));
    micro.counted_there = placed(counted, 1, 1).reshaped({1});
  }
  Batch(const Batch&) = delete;

  // For models whose queries see later keys: sets where the document of each token ends, too.
  void end_documents() {
    const auto b = micro.batch(), t = micro.sequence();
    ends.resize(start.size());
    for (auto s = b - 1; s >= 0; --s) {
      auto end = static_cast<std::int32_t>(t);
      for (auto i = t - 1; i >= 0; --i) {
        ends[static_cast<std::size_t>(s * t + i)] = end;
        if (start[static_cast<std::size_t>(s * t + i)] == i) end = static_cast<std::int32_t>(i);
      }
    }
    micro.key_end = placed(ends, b, t);
  }

  // For models with an encoder: the sources, of the same samples. Each document of a window here sees the document of
  // the same number in its source; documents without one see nothing.
  void add_sources(const std::vector<std::vector<std::int32_t>>& windows, bool document_mask) {
    sources = std::make_unique<Batch>(windows, document_mask, micro.samples.at(0));
    sources->end_documents();
    const auto b = micro.batch(), t = micro.sequence(), s = sources->micro.sequence();
    for (std::int64_t sequence = 0; sequence < b; ++sequence) {
      std::vector<std::int32_t> begins;  // of the source's documents
      for (std::int64_t i = 0; i < s; ++i)
        if (sources->start[static_cast<std::size_t>(sequence * s + i)] == i)
          begins.push_back(static_cast<std::int32_t>(i));
      begins.push_back(static_cast<std::int32_t>(s));
      std::size_t document = 0;
      for (std::int64_t i = 0; i < t; ++i) {
        if (i > 0 && start[static_cast<std::size_t>(sequence * t + i)] == i) ++document;
        source_start.push_back(begins.at(std::min(document, begins.size() - 1)));
        source_end.push_back(begins.at(std::min(document + 1, begins.size() - 1)));
      }
    }
    micro.source = &sources->micro;
    micro.source_start = placed(source_start, b, t), micro.source_end = placed(source_end, b, t);
  }
  std::unique_ptr<Batch> sources;
  std::vector<std::int32_t> source_start, source_end;

 private:
  template <class T> base::View placed(std::vector<T>& values, std::int64_t b, std::int64_t t) {
    auto view = base::View::of(values.data(), {b, t});
    if (!on_gpu()) return view;
    auto& twin = twins_.emplace_back(values.size() * sizeof(T));
    std::memcpy(twin.host.data(), values.data(), twin.host.size());
    twin.push();
    view.data = twin.there(), view.device = test_device();
    return view;
  }
  std::deque<Twin> twins_;
};

// The token formula of tests/golden/pytorch_golden.py.
inline std::vector<std::int32_t> formula_window(std::int64_t vocabulary, std::int64_t step, std::int64_t sequence,
                                                std::int64_t length, bool mask) {
  std::vector<std::int32_t> w;
  for (std::int64_t i = 0; i <= length; ++i)
    w.push_back(static_cast<std::int32_t>((i * i * 7 + i * 3 + sequence * 17 + step * 29 + 5) % (vocabulary - 1) + 1));
  if (mask) w[static_cast<std::size_t>(4 + sequence)] = 0, w[11] = 0;
  return w;
}
inline std::vector<std::vector<std::int32_t>> formula_windows(std::int64_t vocabulary, std::int64_t step,
                                                              std::int64_t batch, std::int64_t length, bool mask) {
  std::vector<std::vector<std::int32_t>> w;
  for (std::int64_t s = 0; s < batch; ++s) w.push_back(formula_window(vocabulary, step, s, length, mask));
  return w;
}

// The arenas of one rank, sized by the plan, and a decoder that runs in them.
class Runner {
 public:
  Runner(const plan::ModelConfig& model, const plan::MicroShape& shape, const plan::Recomputation& recompute = {})
      : decoder(model, recompute), shape_(on_device(shape)),
        activations(tensor::Category::activations, plan::activation_bytes(model, shape_, plan::Pass::train, recompute),
                    test_device()),
        workspace(tensor::Category::workspace, plan::workspace_bytes(model, shape_, plan::Pass::train), test_device()),
        exec(test_exec(&workspace, shape.threads)), lists(model, shape.sequence, *exec), saved(activations),
        label_smoothing(shape.label_smoothing ? 0.1 : 0) {}

  struct Result {
    double loss_sum;
    std::int64_t targets;
  };
  Result train(PlainStore& store, const Batch& batch, std::uint64_t seed = 7) {
    store.committed.clear();
    model::Step step{*exec, &store, batch.micro, shape_.dtype, seed, plan::Pass::train, 0, 0};
    step.collectives = collectives, step.gate_records = gate_records, step.lists = &lists;
    step.label_smoothing = label_smoothing;
    auto flow = decoder.forward(step, saved);
    decoder.backward(step, flow, saved);
    exec->synchronize();
    store.pull();
    return {step.loss_sum, step.target_count};
  }
  Result evaluate(PlainStore& store, const Batch& batch) {
    model::Step step{*exec, &store, batch.micro, shape_.dtype, 0, plan::Pass::evaluate, 0, 0};
    step.collectives = collectives, step.lists = &lists;
    step.label_smoothing = label_smoothing;  // which an evaluation does not read
    decoder.evaluate(step, saved);
    return {step.loss_sum, step.target_count};
  }
  void logits(PlainStore& store, const Batch& batch, std::int64_t at, base::View out) {
    model::Step step{*exec, &store, batch.micro, shape_.dtype, 0, plan::Pass::evaluate, 0, 0};
    step.lists = &lists;
    if (!on_gpu()) return decoder.logits(step, saved, at, out);
    Twin there(static_cast<std::size_t>(out.bytes()));
    auto on_device = out;
    on_device.data = there.there(), on_device.device = test_device();
    decoder.logits(step, saved, at, on_device);
    exec->synchronize();
    there.pull();
    std::memcpy(out.data, there.host.data(), there.host.size());
  }

  static plan::MicroShape on_device(plan::MicroShape shape) {
    shape.device = test_device().kind;
    return shape;
  }

  model::Decoder decoder;
  const model::TensorCollectives* collectives = &model::one_rank();
  base::View gate_records = {};
  plan::MicroShape shape_;
  tensor::Arena activations, workspace;
  std::unique_ptr<tensor::Exec> exec;
  model::AttentionLists lists;
  model::Saved saved;
  double label_smoothing;
};

}  // namespace trainyard::test
