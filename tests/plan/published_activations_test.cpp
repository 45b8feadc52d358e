// Tests what a layer keeps for backward against a published list of tensors, and each difference by its bytes.
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace trainyard::plan {
namespace published_activations_test {

// Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", section 4.1: what a layer
// in 16 bits keeps for backward, in the order of its forward pass. s b h elements, or s b a s of the scores.
enum class Of { hidden, scores };
// Of these tensors tensor-parallel ranks hold slices, or whole copies. With sequence parallelism they hold slices of
// the latter, too (sections 4.2.1 and 4.2.2).
enum class Divided { always, with_sequence };
struct Theirs {
  const char* name;
  std::int64_t bytes;  // of an element
  Of of;
  Divided divided;
  const char* ours;  // the tensor that is the same, or a part of it; nullptr: not kept
};
constexpr Theirs list[] = {{"input of the first norm", 2, Of::hidden, Divided::with_sequence, "attention input"},
                           {"input of Q, K and V", 2, Of::hidden, Divided::with_sequence, "attention normed"},
                           {"Q", 2, Of::hidden, Divided::always, "attention qkv"},
                           {"K", 2, Of::hidden, Divided::always, "attention qkv"},
                           {"V", 2, Of::hidden, Divided::always, "attention qkv"},
                           {"output of the softmax", 2, Of::scores, Divided::always, nullptr},
                           {"mask of its dropout", 1, Of::scores, Divided::always, nullptr},
                           {"output of its dropout", 2, Of::scores, Divided::always, nullptr},
                           {"input of the projection", 2, Of::hidden, Divided::always, "attention attended"},
                           {"mask behind attention", 1, Of::hidden, Divided::with_sequence, nullptr},
                           {"input of the second norm", 2, Of::hidden, Divided::with_sequence, "ffn input"},
                           {"input of the first product", 2, Of::hidden, Divided::with_sequence, "ffn normed"},
                           {"input of GELU", 8, Of::hidden, Divided::always, "ffn inner"},
                           {"input of the second product", 8, Of::hidden, Divided::always, "ffn activated"},
                           {"mask behind the branch", 1, Of::hidden, Divided::with_sequence, nullptr}};

// Their four models, with what figures 1 and 7 say of the first stage, in GiB: activations with tensor parallelism
// alone, and with sequence parallelism and selective recomputation.
struct Case {
  const char* name;
  std::int64_t hidden, layers, heads, micro_batch, global_batch;
  int pipeline, chunks;
  double all, selective;
};
constexpr Case cases[] = {{"22B", 6144, 48, 64, 4, 4, 1, 1, 59.25, 9.56},
                          {"175B", 12288, 96, 96, 1, 64, 8, 3, 66.84, 12.35},
                          {"530B", 20480, 105, 128, 1, 280, 35, 3, 114.02, 23.08},
                          {"1T", 25600, 128, 160, 1, 512, 64, 1, 131.25, 26.56}};
constexpr std::int64_t sequence = 2048;

std::int64_t bytes_of(const Theirs& t, const Case& c, int tensor, bool sequence_parallel) {
  const auto elements = sequence * c.micro_batch * (t.of == Of::hidden ? c.hidden : c.heads * sequence);
  return t.bytes * elements / (t.divided == Divided::always || sequence_parallel ? tensor : 1);
}

// Selective recomputation, to them, makes again what has the size of scores (section 5).
enum class Kept { all, selective };
std::int64_t theirs(const Case& c, int tensor, bool sequence_parallel, Kept kept = Kept::all) {
  std::int64_t bytes = 0;
  for (const auto& t : list)
    if (kept == Kept::all || t.of == Of::hidden) bytes += bytes_of(t, c, tensor, sequence_parallel);
  return bytes;
}

ModelConfig model_of(const Case& c) {
  auto m = preset("gpt2");
  m.hidden = c.hidden, m.layers = c.layers, m.heads = m.kv_heads = c.heads, m.ffn = 4 * c.hidden;
  m.context = sequence, m.vocabulary = 51200, m.lanes = 1;
  m.dropout_embedding = m.dropout_attention = m.dropout_attention_residual = m.dropout_ffn_residual = 0.1;
  return m;
}

MicroShape shape_of(const Case& c, int tensor, bool sequence_parallel) {
  MicroShape s{{c.micro_batch, sequence}, {base::DType::bf16, 1, base::DeviceKind::cuda}};
  s.tensor = tensor, s.sequence_parallel = sequence_parallel;
  return s;
}

struct Difference {
  std::string name;
  std::int64_t bytes;  // below 0: theirs alone
};
std::int64_t sum(const std::vector<Difference>& all) {
  return std::accumulate(all.begin(), all.end(), std::int64_t{0}, [](auto n, const auto& d) { return n + d.bytes; });
}

// What one of us alone keeps of a layer. Statistics are of f32: mean and reciprocal deviation of both norms, which the
// paper leaves out as small, and in place of scores the logarithm of each query's sum of exponents.
std::vector<Difference> differences(const Case& c, int tensor, bool sequence_parallel, Kept kept = Kept::all) {
  std::vector<Difference> out;
  for (const auto& t : list)
    if (t.ours == nullptr && (kept == Kept::all || t.of == Of::hidden))
      out.push_back({t.name, -bytes_of(t, c, tensor, sequence_parallel)});
  const auto tokens = sequence * c.micro_batch, own = sequence_parallel ? tokens / tensor : tokens;
  for (const char* branch : {"attention ", "ffn "})
    for (const char* name : {"mean", "rstd"}) out.push_back({std::string(branch) + name, 4 * own});
  out.push_back({"attention logsumexp", 4 * tokens * c.heads / tensor});
  return out;
}

struct Layout {
  int tensor;
  bool sequence_parallel;
};
constexpr Layout layouts[] = {{1, false}, {8, false}, {8, true}};

TEST(PublishedActivations, TheListHasTheBytesOfTheFormulas) {
  for (const auto& c : cases) {
    const auto sbh = sequence * c.micro_batch * c.hidden, scores = sequence * c.micro_batch * c.heads * sequence;
    EXPECT_EQ(theirs(c, 1, false), 34 * sbh + 5 * scores);
    EXPECT_EQ(theirs(c, 8, false), 10 * sbh + 24 * sbh / 8 + 5 * scores / 8);
    EXPECT_EQ(theirs(c, 8, true), 34 * sbh / 8 + 5 * scores / 8);
    EXPECT_EQ(theirs(c, 8, true, Kept::selective), 34 * sbh / 8);
  }
}

// Each tensor of theirs has the bytes of ours, and the others are listed above; nothing of ours is left.
TEST(PublishedActivations, EachTensorOfALayer) {
  for (const auto& c : cases)
    for (const auto& [tensor, sequence_parallel] : layouts) {
      const auto m = model_of(c);
      const auto s = shape_of(c, tensor, sequence_parallel);
      std::map<std::string, std::int64_t> left;
      const auto groups = layer_tensors(m, s, Pass::train);
      for (std::size_t branch = 0; branch < groups.size(); ++branch)
        for (const auto& t : groups[branch]) left[m.branches[branch] + " " + t.name] += t.bytes();
      for (const auto& t : list)
        if (t.ours != nullptr) left[t.ours] -= bytes_of(t, c, tensor, sequence_parallel);
      const auto apart = differences(c, tensor, sequence_parallel);
      for (const auto& d : apart)
        if (d.bytes > 0) left[d.name] -= d.bytes;
      for (const auto& [name, bytes] : left) EXPECT_EQ(bytes, 0) << c.name << " " << tensor << " " << name;
      EXPECT_EQ(block_kind("layer").saved_bytes(m, s), theirs(c, tensor, sequence_parallel) + sum(apart));
    }
}

// What selective recomputation makes again is another thing here: outputs of norms, and of GELU where its form allows.
TEST(PublishedActivations, EachFormOfRecomputation) {
  for (const auto& c : cases) {
    const auto input = bytes_of(list[0], c, 1, false);
    EXPECT_EQ(input, 2 * sequence * c.micro_batch * c.hidden);
    const auto whole = model_of(c);
    const ModelPart two_layers(whole, {{1, 3}});
    EXPECT_EQ(saved_bytes(two_layers, shape_of(c, 1, false), Recompute::layers).kept, 2 * input)
        << "full recomputation";
    const auto without = theirs(c, 8, true, Kept::selective) + sum(differences(c, 8, true, Kept::selective));
    EXPECT_EQ(block_kind("layer").saved_bytes(whole, shape_of(c, 8, true)), without);
    auto m = whole;
    for (const auto activation : {Activation::gelu_tanh, Activation::gelu_erf}) {
      m.activation = activation;
      const auto norms = 2 * input / 8, activated = activation == Activation::gelu_erf ? 4 * input / 8 : 0;
      EXPECT_EQ(block_kind("layer").selective_bytes(m, shape_of(c, 8, true)).kept, without - norms - activated);
    }
  }
}

Plan plan_of(const Case& c, bool sequence_parallel) {
  Plan p;
  p.model = model_of(c);
  p.sequence = sequence, p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16;
  p.tensor = 8, p.pipeline = c.pipeline, p.virtual_stages = c.chunks, p.partition = "type:layers";
  if (c.chunks > 1) p.pipeline_schedule = PipelineSchedule::interleaved;
  p.micro_batch = c.micro_batch, p.global_batch = c.global_batch, p.sequence_parallel = sequence_parallel;
  p.topology = topology_of(p, 8 * c.pipeline);
  p.stages = stages_of(p);
  return p;
}

// Layers whose activations the first stage holds at one time: L (1 + (p - 1) / (p m)) (section 4.2.3).
std::int64_t layers_in_flight(const Case& c) {
  return c.layers + (c.chunks > 1 ? c.layers * (c.pipeline - 1) / c.pipeline / c.chunks : 0);
}

// Beside layers, a plan has hidden states of each micro-batch in each virtual stage. A ring of virtual stages has two
// more, for what arrives and what leaves. One stage has the head: its norm's input, output and statistics.
//
// Each virtual stage has slots of its own, as many as it fills at most. The p stages of three virtual ones fill 2p,
// 2p - 1 and p of them, though no more than 4p - 1 at one time: the first forward passes are p of each virtual stage,
// then p of the first one again, of which p - 2 come before the first backward. So p slots are empty at any time.
TEST(PublishedActivations, TotalsOfTheFirstStage) {
  constexpr double gibibyte = std::int64_t{1} << 30;
  for (const auto& c : cases)
    for (const bool sequence_parallel : {false, true}) {
      const auto kept = sequence_parallel ? Kept::selective : Kept::all;
      const auto layers = layers_in_flight(c), of_layer = theirs(c, 8, sequence_parallel, kept);
      EXPECT_NEAR(static_cast<double>(layers * of_layer) / gibibyte, sequence_parallel ? c.selective : c.all, 0.005);
      const auto of_slot = c.layers / c.pipeline / c.chunks, slots = layers / of_slot;
      const auto tokens = sequence * c.micro_batch / (sequence_parallel ? 8 : 1), row = 2 * tokens * c.hidden;
      std::vector<Difference> apart{{"hidden states", slots * row}};
      const auto of_ours = differences(c, 8, sequence_parallel, kept);
      for (const auto& d : of_ours) apart.push_back({d.name, layers * d.bytes});
      if (c.chunks > 1) apart.push_back({"empty slots", c.pipeline * (row + of_slot * (of_layer + sum(of_ours)))});
      if (c.chunks > 1) apart.push_back({"messages", 2 * row});
      if (c.pipeline == 1) apart.push_back({"head", 2 * row + 2 * 4 * tokens});
      const auto ours = memory_of_stage(plan_of(c, sequence_parallel), 0).categories[base::MemoryCategory::activations];
      EXPECT_EQ(ours, layers * of_layer + sum(apart)) << c.name << " " << sequence_parallel;
    }
}

}  // namespace published_activations_test
}  // namespace trainyard::plan
