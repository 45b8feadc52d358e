// Tests declarations of parameters: names that are declared twice are refused, and lookups name what is missing.
#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "tests/plan/small_plan.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

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
  double forward_flops(const ModelConfig&, std::int64_t) const override { return 0; }
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

}  // namespace
}  // namespace trainyard::plan
