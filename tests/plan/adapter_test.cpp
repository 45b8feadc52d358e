// Low-rank adapters in a plan: what is trained, what frozen weights save, and what a model refuses.
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/model_file/adapter_setting.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trainyard::plan {
namespace adapter_test {

// 3 layers of hidden 64, queries 64, keys and values 32, feed-forward 96.
ModelConfig model() {
  ModelConfig m;
  m.layers = 3, m.hidden = 64, m.heads = 4, m.kv_heads = 2, m.ffn = 96, m.vocabulary = 257, m.context = 32;
  m.norm = Norm::rms, m.positions = Positions::rotary, m.activation = Activation::swiglu, m.biases = Biases::off;
  m.tied = false;
  return m;
}
ModelConfig adapted(std::vector<std::string> on = {"q", "o", "down"}) {
  auto m = model();
  m.adapter = {.rank = 16, .alpha = 32, .on = std::move(on)};
  return m;
}

TEST(Adapter, OnlyItsMatricesAreTrained) {
  const auto m = adapted();
  // A and B of q [64, 64], o [64, 64] and down [64, 96], in three layers.
  const std::int64_t of_adapters = 3 * 16 * ((64 + 64) + (64 + 64) + (64 + 96));
  EXPECT_EQ(trained_parameter_count(m), of_adapters);
  EXPECT_EQ(parameter_count(m), parameter_count(model()) + of_adapters);
  EXPECT_EQ(trained_parameter_count(model()), parameter_count(model()));
  EXPECT_TRUE(trained_text(model()).empty());
  EXPECT_NE(trained_text(m).find("in adapters of rank 16 on q, o, down"), std::string::npos) << trained_text(m);
  for (const auto& group : flat_groups(m)) EXPECT_NE(is_frozen(group), is_adapter(group)) << group.name;
  const auto groups = flat_groups(m);
  const auto found =
      std::find_if(groups.begin(), groups.end(), [](const auto& g) { return g.name == "layers.01.adapter"; });
  ASSERT_NE(found, groups.end());
  const auto& a = found->parameters[static_cast<std::size_t>(index_of(*found, "ffn.down.adapter_a"))];
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{16, 96}));
  EXPECT_EQ(a.sharded, (ShardedDim{1, Axis::tensor}));
  EXPECT_DOUBLE_EQ(a.init.stddev, 1 / std::sqrt(3.0 * 96));
  const auto& b = found->parameters[static_cast<std::size_t>(index_of(*found, "attention.q.adapter_b"))];
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{64, 16}));
  EXPECT_EQ(b.sharded, (ShardedDim{0, Axis::tensor}));
  EXPECT_EQ(b.init.kind, Init::Kind::zeros);
  EXPECT_FALSE(found->parameters[static_cast<std::size_t>(index_of(*found, "attention.q.adapter_a"))].sharded);
}

// Forward and the gradient of the input of every product, the weight gradients of adapters alone, attention as before.
TEST(Adapter, FlopsLeaveOutWeightGradients) {
  const double rows = 2 * 32, q = 64 * 64, kv = 64 * 32, o = 64 * 64, ffn = 3 * 64 * 96, head = 64 * 257,
               scores = 4 * 32 * 64, adapters = 16 * (128 + 128 + 160);
  EXPECT_DOUBLE_EQ(step_flops(adapted(), 2, 32, {}),
                   rows * (3 * (2 * 2 * (q + 2 * kv + o + ffn) + 3 * scores + 3 * 2 * adapters) + 2 * 2 * head));
  EXPECT_DOUBLE_EQ(step_flops(model(), 2, 32, {}),
                   rows * (3 * (3 * 2 * (q + 2 * kv + o + ffn) + 3 * scores) + 3 * 2 * head));
}

TEST(Adapter, FrozenWeightsHaveNoStatesAndNoGradients) {
  const auto m = adapted();
  for (const int zero : {0, 1, 2, 3}) {
    StateShape shape;
    shape.zero = zero, shape.working = base::DType::bf16;
    shape.topology = Topology({{Axis::data, 2}});
    shape.batch = {4, 1, 1, 2};
    const FlatGroupTable table(m, shape.topology);
    std::int64_t padded = 0, largest = 0, all = 0;
    for (const auto& e : table.entries()) {
      all += e.times * e.layout.padded;
      if (e.frozen) continue;
      padded += e.times * e.layout.padded, largest = std::max(largest, e.layout.padded);
    }
    const auto bytes = state_bytes(table, shape);
    const auto updated = zero == 0 ? padded : padded / 2;
    EXPECT_EQ(bytes.optimizer, updated * (8 + 4)) << zero;  // two moments and a master
    EXPECT_LE(bytes.gradients, 2 * padded * 4) << zero;
    EXPECT_EQ(bytes.communication_staging, base::aligned(largest * 4)) << zero;
    EXPECT_EQ(bytes.parameters, (zero == 3 ? all / 2 : all) * 2) << zero;
    std::int64_t reduced = 0, gathered = 0;
    for (const auto& t : step_traffic(m, shape, Reduction::ordered, 0)) {
      if (t.operation == "ordered_reduce_scatter") reduced += t.calls;
      if (t.operation == "all_gather") gathered += t.calls;
    }
    EXPECT_EQ(reduced, 3 * 2) << zero;  // three groups in two accumulation steps
    if (zero < 3) {
      EXPECT_EQ(gathered, 3) << zero;
    }
  }
}

TEST(Adapter, SettingsGiveIt) {
  auto m = model();
  take_adapter({"lora:24", "k,v", 12}, m);
  EXPECT_EQ(m.adapter.rank, 24);
  EXPECT_EQ(m.adapter.scale(), 0.5);
  EXPECT_EQ(m.adapter.on, (std::vector<std::string>{"k", "v"}));
  take_adapter({}, m);
  EXPECT_EQ(m.adapter.rank, 24);
  EXPECT_EQ(model_from_json(model_to_json(m), "here", "hint"), m);
  EXPECT_FALSE(model_to_json(model()).contains("adapter_rank"));
  for (const char* text : {"lora", "lora:", "lora:7", "lora:0", "lora:-8", "lora:8192", "16", "dora:16", "lora:16:2"}) {
    auto other = model();
    EXPECT_THROW(take_adapter({text, "", 0}, other), base::UsageError) << text;
  }
  auto plain = model();
  EXPECT_THROW(take_adapter({"", "q", 0}, plain), base::UsageError);
  EXPECT_THROW(take_adapter({"", "", 8}, plain), base::UsageError);
}

TEST(Adapter, ModelsThatCannotHaveOne) {
  const auto refused = [](const ModelConfig& m, const std::string& words) {
    const auto all = problems(m);
    EXPECT_TRUE(
        std::any_of(all.begin(), all.end(), [&](const auto& text) { return text.find(words) != std::string::npos; }))
        << words << ": " << (all.empty() ? "none" : all.front());
  };
  EXPECT_TRUE(problems(adapted()).empty());
  auto m = adapted();
  m.adapter.rank = 12;
  refused(m, "not a multiple of 8");
  m.adapter.rank = 72;
  refused(m, "above hidden 64");
  refused(adapted({}), "adapter-on is empty");
  refused(adapted({"q", "v", "q"}), "names 'q' twice");
  m = adapted({"gate"}), m.activation = Activation::relu;
  refused(m, "has no gate");
  m = adapted({"q", "up"}), m.experts.count = {4};
  refused(m, "beside experts");
  m = adapted({"up"}), m.branches = {"attention"};
  refused(m, "adapter-on up");
}

}  // namespace adapter_test
}  // namespace trainyard::plan
