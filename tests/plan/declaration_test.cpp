// Tests declarations of parameters: names that are declared twice are refused, and lookups name what is missing.
#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/plan/small_plan.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {
namespace {

struct TwiceKind : BranchKind {
  std::string prefix() const override { return "twice"; }
  void declare(Declaration& flat_group) const override {
    flat_group.weight("twice.weight", 8, flat_group.model().hidden);
    flat_group.bias("twice.bias", 8);
    flat_group.weight("twice.weight", 8, 8);
  }
  std::vector<SavedTensor> tensors(const ModelConfig&, const MicroShape&, Pass) const override { return {}; }
  std::int64_t forward_workspace_bytes(const ModelConfig&, const MicroShape&, Pass) const override { return 0; }
  std::int64_t backward_workspace_bytes(const ModelConfig&, const MicroShape&) const override { return 0; }
  double forward_flops(const ModelConfig&, const Lengths&) const override { return 0; }
};

TEST(Declaration, RefusesANameThatItHas) {
  const ModelConfig model;
  Declaration d(model, "layers.00", Part::layers);
  d.weight("mine.weight", 4, 4);
  d.weight("mine.weights", 4, 4);
  EXPECT_EQ(testing::refusal_of<base::UsageError>([&] { d.bias("mine.weight", 4); }),
            "flat group 'layers.00' declares two parameters called 'mine.weight'");
  EXPECT_EQ(d.take().parameters.size(), 2u);
}

// A branch that declares a name twice is refused when it is planned, not when the trained model is saved.
TEST(Declaration, OfABranchIsCheckedByThePlanner) {
  register_branch("twice", std::make_shared<TwiceKind>());
  auto p = small_plan();
  p.model.branches.emplace_back("twice");
  const std::string text = "flat group 'layers.00' declares two parameters called 'twice.weight'";
  EXPECT_EQ(testing::refusal_of<base::UsageError>([&] { decision_problems(p); }), text);
  EXPECT_EQ(testing::refusal_of<base::UsageError>([&] { predict(p); }), text);
}

TEST(FlatGroup, LooksUpParameters) {
  const ModelConfig model;
  Declaration d(model, "layers.00", Part::layers);
  d.weight("a.weight", 4, 4);
  d.weight("b.weight", 4, 4);
  const auto flat_group = d.take();
  EXPECT_EQ(index_of(flat_group, "b.weight"), 1);
  EXPECT_EQ(find_index(flat_group, "b.weight"), 1);
  EXPECT_EQ(find_index(flat_group, "b.bias"), -1);
  try {
    index_of(flat_group, "b.weigth");
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("flat group 'layers.00' has no parameter 'b.weigth'"), std::string::npos)
        << e.what();
  }
}

// What norms in other places, an offset of norms and unused positions declare.
TEST(Declaration, OfVariants) {
  auto m = preset("gpt2-nano");
  m.vocabulary = 257, m.lanes = 1, m.norm_position = NormPosition::sandwich, m.norm_offset = 1, m.position_offset = 2;
  const auto all = flat_groups(m);
  EXPECT_EQ(all[1].parameters.at(0).shape, (std::vector<std::int64_t>{m.context + 2, m.hidden}));
  std::vector<std::string> norms;
  for (const auto& group : {all[2], all.back()})
    for (const auto& p : group.parameters)
      if (p.name.ends_with("norm.weight")) {
        norms.push_back(p.name);
        EXPECT_EQ(p.init.kind, Init::Kind::zeros) << p.name;
      }
  EXPECT_EQ(norms, (std::vector<std::string>{"layers.00.attention_norm.weight", "layers.00.attention_post_norm.weight",
                                             "layers.00.ffn_norm.weight", "layers.00.ffn_post_norm.weight",
                                             "head.norm.weight"}));
  m.norm_position = NormPosition::inside_post, m.norm_offset = 0;
  const auto others = flat_groups(m);
  for (const auto& p : others[2].parameters) {
    EXPECT_FALSE(p.name.ends_with("post_norm.weight")) << p.name;
    if (p.name.ends_with("norm.weight")) {
      EXPECT_EQ(p.init.kind, Init::Kind::ones) << p.name;
    }
  }
}

TEST(ModelJson, VariantsAreLeftOutWhileThereAreNone) {
  auto m = preset("gpt2-nano");
  const auto usual = model_to_json(m);
  for (const char* key : {"parallel_residual", "norm_offset", "embedding_scale", "logit_softcap", "position_offset"})
    EXPECT_FALSE(usual.contains(key)) << key;
  m.norm_position = NormPosition::inside_post, m.norm_offset = 1, m.embedding_scale = 0.1, m.logit_softcap = 30;
  m.position_offset = 2, m.activation = Activation::relu_squared;
  EXPECT_EQ(model_from_json(model_to_json(m), "x", ""), m);
  EXPECT_EQ(model_to_json(m)["norm_position"], "inside_post");
}

}  // namespace
}  // namespace trainyard::plan
